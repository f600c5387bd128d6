"""The rows that a gate run compares: each table read once, at a pinned version. The entry is `snapshot.evidence`."""
