"""The rows that a gate run compares. Reads each table once, at one version. The entry is `snapshot.evidence`."""
