"""The rows that a gate run compares. Reads each table once, at a pinned version. The entry is `snapshot.evidence`."""
