"""Compare Bronze, Silver, the rejects and Gold offset by offset, in one pass over each."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.contracts.silver import RELEASED, REPLAY
from lakehouse.extract.kinds import by_topic
from lakehouse.run.findings import Check, Violation, finding
from lakehouse.spark import frames
from lakehouse.spark.bitmaps import WORD_BITS
from lakehouse.spark.interval_join import any_of, at
from lakehouse.table import BRONZE_RECORDS, GOLD_LATEST, GOLD_RECORDS, SILVER_RECORDS, SILVER_REJECTS
from pipelines.verify.remedies import BRONZE_OUT, GOLD_OUT, SILVER_OUT
from silver.audit import offset_bitmaps as words
from silver.audit.row_summaries import as_of
from silver.extract.columns import from_bytes, sequenced
from silver.extract.schemas import with_schemas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from pipelines.verify.snapshot import Pins
    from silver.audit.ledger_checks import Row
    from silver.rules import Rules

_FEW_PARTITIONS = 32
_MOST_BROADCAST = 50_000_000
"""Kept records up to which Silver's bitmap words are broadcast."""

_READ = "read_"
_READ_EPOCH = f"{_READ}epoch"
_GOLD = ("producer", "epoch", "sequence", "load_seq", "arrival")


class Offsets:
    """The comparison by offset.

    Args:
        spark: The session.
        run: The run.
        pins: The pinned tables.
        rules: The rules of the last load if sequences are to be read from Bronze again (`--deep`), else None.
    """

    def __init__(self, spark: SparkSession, run: Run, pins: Pins, rules: Rules | None) -> None:
        self._spark, self._run, self._pins, self._rules = spark, run, pins, rules
        self._has_producers = any(row["producer"] is not None for row in pins.loads)
        self._columns = words.CONTENT if rules is None else (*words.CONTENT, "headers", *_again(rules))

    def findings(self) -> Iterator[Check]:
        """The checks by offset, causes before consequences."""
        pins = self._pins
        rows = self._compared(is_doubled=bool(pins.count(REPLAY)))
        if any(row["doubled"] for row in rows if row["word"] is None) and not pins.count(REPLAY):
            rows = self._compared(is_doubled=True)
        wrong = [row for row in rows if row["word"] is not None]
        whole = [row for row in rows if row["word"] is None]
        offsets = Counter({(row["topic"], row["partition"]): row["offsets"] for row in whole})
        held = f"{sum(offsets.values()):,} offsets"
        bronze, silver = str(self._run.table(BRONZE_RECORDS)), str(self._run.table(SILVER_RECORDS))
        counted = _counted(pins.loads, offsets)
        yield finding("bronze_is_complete", counted, where=bronze, holds=held, next_step=BRONZE_OUT)
        found = _wrong(wrong, _SILVER)
        yield finding("each_offset_once", found, where=silver, holds=f"{held}: kept, or kept out", next_step=SILVER_OUT)
        kept = f"{sum(row['silver'] for row in whole):,} records"
        differs = self._differing(wrong)
        yield finding("silver_is_bronze", differs, where=silver, holds=f"{kept} as Bronze holds them", next_step=SILVER_OUT)
        if pins.published:
            gold = str(self._run.table(GOLD_RECORDS))
            kept = f"{sum(row['gold'] for row in whole):,} records as Silver holds them"
            yield finding("gold_is_silver", _wrong(wrong, _PUBLISHED), where=gold, holds=kept, next_step=GOLD_OUT)

    def _compared(self, *, is_doubled: bool) -> list[Row]:
        pins = self._pins
        whole, hashed = words.whole(_GOLD), words.content(self._columns).alias("hash")
        is_erased = F.col("erased").isNotNull().alias("is_erased")
        kept = self._silver().where(F.col("load_seq") <= pins.finished)
        kept = kept.select("topic", "partition", "offset", *_GOLD, is_erased, hashed)
        if pins.aside:
            kept = self._as_in_gold(kept)
        is_published = F.col("load_seq").isNotNull() & (F.col("load_seq") <= pins.published) & F.expr(pins.rejected.excluded)
        silver = words.silver_by_word(kept, is_published, whole)
        sources = [self._bronze_words(silver, is_doubled=is_doubled), silver]
        if not pins.is_plain:
            rejects = as_of(pins.read(self._spark, self._run, SILVER_REJECTS), pins.finished)
            sources.append(words.rejects_by_word(rejects))
        if pins.published and GOLD_RECORDS in pins.versions:
            gold = self._with_read_epoch(pins.read(self._spark, self._run, GOLD_RECORDS))
            gold = gold.where(F.col("load_seq") <= pins.published)
            sources.append(words.by_word("g", gold.select("topic", "partition", "offset", *_GOLD, hashed), whole))
        if pins.published and GOLD_LATEST in pins.versions:
            latest = pins.read(self._spark, self._run, GOLD_LATEST).where(F.col("load_seq") <= pins.published)
            sources.append(words.by_word("l", latest))
        rows: list[Row] = words.compared(sources, has_producers=self._has_producers).toArrow().to_pylist()
        return rows

    def _as_in_gold(self, kept: DataFrame) -> DataFrame:
        """Silver's rows with the load that brought each into Gold: for records kept out, none or the one that released it."""
        names = ("topic", "partition", "offset", "state", "settled_load_seq")
        columns = "topic string, partition int, offset bigint, state string, settled_load_seq bigint"
        aside = frames.of_tuples(self._spark, [[row[name] for name in names] for row in self._pins.aside], columns)
        joined = kept.join(F.broadcast(aside), on=["topic", "partition", "offset"], how="left")
        brought = F.when(F.col("state").isNull(), F.col("load_seq")).when(F.col("state") == RELEASED, F.col("settled_load_seq"))
        return joined.withColumn("load_seq", brought).select(*kept.columns)

    def _bronze_words(self, silver: DataFrame, *, is_doubled: bool) -> DataFrame:
        hashed = self._bronze().select("topic", "partition", "offset", words.content(self._columns).alias("hash"))
        if is_doubled:  # Bronze holds some offsets twice: equal hashes would cancel out
            hashed = hashed.dropDuplicates(["topic", "partition", "offset"])
        if self._pins.is_plain:
            return words.by_word("b", hashed, F.col("hash"))
        mask = F.broadcast(silver) if self._pins.count("accepted") <= _MOST_BROADCAST else silver
        return words.by_word("b", words.masked(hashed, mask), F.when(F.col("is_kept"), F.col("hash")))

    def _silver(self) -> DataFrame:
        return self._with_read_epoch(self._pins.read(self._spark, self._run, SILVER_RECORDS))

    def _with_read_epoch(self, rows: DataFrame) -> DataFrame:
        """Add the epoch of topics in which it is read; elsewhere null, as there it may be one that an operator declared."""
        if self._rules is None:
            return rows
        is_read = by_topic([(topics, F.lit(each.epoch is not None)) for each, topics in self._rules.sources.kinds])
        return rows.withColumn(_READ_EPOCH, F.when(is_read, F.col("epoch")))

    def _bronze(self) -> DataFrame:
        """Bronze's records of the finished loads: up to the last decided offset of each partition."""
        records = self._pins.read(self._spark, self._run, BRONZE_RECORDS)
        last = self._pins.last_offsets
        if not last:
            return records.where(F.lit(False))
        if len(last) <= _FEW_PARTITIONS:
            records = records.where(any_of(at(*partition, f"offset <= {offset}") for partition, offset in last.items()))
        else:
            rows = [(*partition, offset) for partition, offset in last.items()]
            known = frames.of_tuples(self._spark, rows, "topic string, partition int, up_to bigint")
            records = records.join(F.broadcast(known), on=["topic", "partition"], how="inner").where("offset <= up_to")
        if self._rules is None:
            return records
        rules = with_schemas(self._spark, self._run, records, self._rules.of_sequences)
        return self._with_read_epoch(sequenced(from_bytes(records), rules))

    def _differing(self, wrong: Iterable[Row]) -> Iterator[Violation]:
        """The bitmap words whose content differs, the first of them down to the offset."""
        for nth, row in enumerate(row for row in wrong if row["differs"]):
            offset = self._first_differing(row) if nth == 0 else words.offset_of(row, "differs")
            yield _violation(row, offset, SILVER_RECORDS, "another content than in Bronze", _named(self._columns))

    def _first_differing(self, row: Row) -> int:
        start = row["word"] << WORD_BITS
        is_within = (F.col("topic") == row["topic"]) & (F.col("partition") == row["partition"])
        is_within &= F.col("offset").between(start, start + 2**WORD_BITS - 1)
        found = [
            {each["offset"]: each["hash"] for each in rows.where(is_within).select("offset", hashed).collect()}
            for rows in (self._bronze(), self._silver())
            for hashed in (words.content(self._columns).alias("hash"),)
        ]
        differing: list[int] = [offset for offset, hashed in found[1].items() if found[0].get(offset) != hashed]
        return min(differing, default=int(start))


_SILVER = {
    "unknown": (SILVER_RECORDS, "a record that Bronze does not hold", "only records of Bronze"),
    "lost": (BRONZE_RECORDS, "a record that is neither in silver_records nor in silver_rejects", "each record in one of them"),
    "both": (SILVER_RECORDS, "a record that is in silver_rejects too", "each record in one of them"),
    "silver_twice": (SILVER_RECORDS, "a record that stands there twice", "each record once"),
}
_PUBLISHED = {
    "gold_lost": (GOLD_RECORDS, "no record, though it is in silver_records and published", "every record of a published load"),
    "gold_more": (GOLD_RECORDS, "a record that no published load brought", "only records of published loads"),
    "gold_twice": (GOLD_RECORDS, "a record that stands there twice", "each record once"),
    "gold_differs": (GOLD_RECORDS, "another content than in silver_records, there or in the 63 that follow", "equal rows"),
    "latest_unknown": (GOLD_LATEST, "a record that gold_records does not hold", "only records of gold_records"),
}


def _again(rules: Rules) -> list[str]:
    """The columns to read from Bronze's records again."""
    return ["producer", "sequence", *([_READ_EPOCH] if rules.has_epochs else [])]


def _counted(loads: Iterable[Row], offsets: Counter[tuple[str, int]]) -> Iterator[Violation]:
    """Compare the number of distinct offsets that Bronze holds of each partition with what the ledger decided."""
    expected: Counter[tuple[str, int]] = Counter()
    for row in loads:
        expected[row["topic"], row["partition"]] += row["records"] - row[REPLAY]
    for topic, partition in sorted({**expected, **offsets}):
        observed, counted = offsets[topic, partition], expected[topic, partition]
        if observed != counted:
            where = f"{BRONZE_RECORDS}, topic {topic}, partition {partition}"
            yield Violation(
                where, f"{observed:,} offsets up to the last decided one", f"{counted:,}, as the ledger decided them"
            )


def _wrong(rows: list[Row], problems: dict[str, tuple[str, str, str]]) -> Iterator[Violation]:
    for problem, (table, observed, expected) in problems.items():
        for row in rows:
            if row[problem]:
                yield _violation(row, words.offset_of(row, problem), table, observed, expected)


def _violation(row: dict[str, Any], offset: int, table: str, observed: str, expected: str) -> Violation:
    where = f"{table}, topic {row['topic']}, partition {row['partition']}, offset {offset}"
    return Violation(where, observed, expected)


def _named(columns: Iterable[str]) -> str:
    return f"the same {', '.join(name.removeprefix(_READ) for name in columns)}"
