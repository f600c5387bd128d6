"""Producer, epoch, sequence and problem of Bronze's records, from Bronze's columns or the bytes.

Bronze extracts at ingest and stores the fingerprint of its sources. Rows with another fingerprint are extracted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.contracts.bronze import EXTRACTED, FINGERPRINT
from lakehouse.contracts.silver import STREAM, UNDECODABLE
from lakehouse.extract.columns import columns_read, extract, fingerprint
from lakehouse.extract.per_topic import by_topic
from silver.extract.payload import decoded

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse.extract.sources import Sources
    from silver.rules import Rules

NARROW = (*STREAM, "offset", "epoch", "sequence", "problem")


def sequenced(records: DataFrame, rules: Rules) -> DataFrame:
    """Add producer (string), epoch and sequence (bigint) and problem (string), as the rules read them from Bronze's records.

    The problem is `value_undecodable` if only the value is at fault and the rules quarantine such records. Rows without a
    fingerprint keep Bronze's columns (see `are_current`). ConfigError if a custom extractor cannot be imported.
    """
    read = _read(records, rules.sources)
    if rules.judges_values:
        judged = decoded(read, rules)
        unread = F.when(F.col("undecodable").isNotNull() & _is_judged(rules), F.lit(UNDECODABLE))
        read = judged.withColumn("problem", F.coalesce("problem", unread)).drop("payload", "undecodable")
    if "erased" not in records.columns:
        return read
    erased = F.col("erased")
    known = {name: erased[name] for name in EXTRACTED}
    known["problem"] = F.when(_is_judged(rules) | (known["problem"] != UNDECODABLE), known["problem"])
    return read.withColumns({name: F.when(erased.isNotNull(), known[name]).otherwise(F.col(name)) for name in EXTRACTED})


def narrow(records: DataFrame, rules: Rules) -> DataFrame:
    """Return the columns `NARROW`. Reads as few columns as possible."""
    return sequenced(records, rules).select(*NARROW)


def are_current(records: DataFrame, rules: Rules) -> bool:
    """Whether Bronze extracted all records with the sources of these rules. If so, drop the fingerprint for `sequenced`."""
    if FINGERPRINT not in records.columns or rules.sources.is_left_to_silver:
        return False
    wanted = F.coalesce(fingerprint(rules.sources), F.lit(""))
    is_other = F.col(FINGERPRINT).isNull() | (F.col(FINGERPRINT) != wanted)
    return not records.where(is_other).select("offset").limit(1).count()


def keys_are_current(keys: pa.Table, rules: Rules) -> bool:
    """Same as `are_current`, for rows on the driver with topic and fingerprint."""
    for read in keys.group_by(["topic", FINGERPRINT]).aggregate([]).to_pylist():
        sources = rules.sources.of_topic(read["topic"])
        if sources.is_left_to_silver or read[FINGERPRINT] != sources.fingerprint:
            return False
    return True


def from_bytes(records: DataFrame) -> DataFrame:
    """Drop the extracted columns, so that `sequenced` reads the bytes."""
    return records.drop(*EXTRACTED, FINGERPRINT)


def _read(records: DataFrame, sources: Sources) -> DataFrame:
    if FINGERPRINT not in records.columns:
        return records if set(EXTRACTED) <= set(records.columns) else extract(records, sources)
    if sources.is_left_to_silver:
        return extract(from_bytes(records), sources)
    is_current = F.coalesce(F.col(FINGERPRINT) == fingerprint(sources), F.lit(False))
    # Spark extracts from every row, even where the result is unused. Those rows get null inputs, which are cheap.
    inputs = columns_read(sources)
    kept = {name: F.col(f"_kept_{name}") for name in (*inputs, *EXTRACTED)}
    emptied = records.withColumns({f"_kept_{name}": F.col(name) for name in kept})
    emptied = emptied.withColumns({name: F.when(~is_current, kept[name]) for name in inputs})
    found = extract(emptied, sources)
    chosen = {name: F.when(is_current, kept[name]).otherwise(F.col(name)) for name in EXTRACTED}
    return found.withColumns({**{name: kept[name] for name in inputs}, **chosen}).drop(*(f"_kept_{name}" for name in kept))


def _is_judged(rules: Rules) -> Column:
    return by_topic([(topics, F.lit(each.judges)) for each, topics in rules.decodings])
