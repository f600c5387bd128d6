"""What a gate run compares: each table read once, at a pinned version, aggregated to few rows.

The entry is `snapshot.evidence`.
"""
