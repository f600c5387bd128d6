"""State shared through commits: `bronze_owner.read_owner`, `cutover_fence.guarded`, and `gold_rejects.effective_rejects`."""
