"""What a gate run looks at: each table read once, at a pinned version, summed up in few rows.

The entry is `snapshot.evidence`.
"""
