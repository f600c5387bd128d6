"""State that processes share through commits: Bronze's owner, rolled-back loads, and records kept out of Gold."""
