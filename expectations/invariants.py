"""The gate's rules as data: what each built-in expectation means, and what a budget may limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Invariant:
    """Something that holds for every stream and load, whatever a producer sends. Critical, and not configurable.

    Attributes:
        name: The expectation's name in `gate_results`.
        fact: The column of the facts that counts its violations.
        meaning: What holds if the count is 0.
    """

    name: str
    fact: str
    meaning: str


INVARIANTS = (
    Invariant(
        "sequence_increases",
        "not_increasing",
        "In a stream, (epoch, sequence) of in-order records rises strictly by offset, the step from the load before included.",
    ),
    Invariant("stream_key_is_unique", "repeated_keys", "No (stream, epoch, sequence) stands twice in the audited loads."),
    Invariant("required_columns_are_not_null", "nulls", "No required column of a kept record is null."),
    Invariant(
        "records_are_conserved",
        "unaccounted",
        "The Bronze records of each partition and load, counted in Bronze, are the sum of the ledger's classes.",
    ),
    Invariant(
        "silver_matches_ledger", "silver_mismatch", "Silver holds as many rows of each stream and load as the ledger accepted."
    ),
    Invariant(
        "watermark_matches_silver",
        "watermark_mismatch",
        "The ledger's watermark is Silver's highest (epoch, sequence), and silver_watermarks says the same.",
    ),
)


@dataclass(frozen=True)
class Measure:
    """Something a budget may limit, per audited load: a good load does not make up for a bad one.

    Attributes:
        name: The key under `gate.budgets`, and the column of the facts.
        meaning: What is counted.
        warns_by_default: Whether a count above 0 warns if no budget is set.
    """

    name: str
    meaning: str
    warns_by_default: bool = False


MEASURES = (
    Measure("duplicate", "Records that were sent again, or lie below the watermark and have not been told apart"),
    Measure("duplicate_share", "The same, as a share of the load's Bronze records"),
    Measure("late", "Records that came after a higher sequence and were never accepted before", warns_by_default=True),
    Measure("late_share", "The same, as a share of the load's Bronze records"),
    Measure("missing", "Sequences that the accepted records stepped over", warns_by_default=True),
    Measure("quarantined", "Records that wait for a decision: late, collision, invalid, jump or fenced"),
    Measure("quarantined_share", "The same, as a share of the load's Bronze records"),
    Measure("undecodable", "Accepted records whose value could not be decoded"),
    Measure("undecodable_share", "The same, as a share of the load's accepted records"),
    Measure("collision", "Records whose sequence was accepted with another payload", warns_by_default=True),
)
