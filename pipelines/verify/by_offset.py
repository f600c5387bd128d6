"""Compare Bronze, Silver, the rejects and Gold offset by offset, in one pass over each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.contracts.silver import PLACE, RELEASED, REPLAY
from lakehouse.extract.per_topic import by_topic
from lakehouse.run.findings import Check, Violation
from lakehouse.spark import frames
from lakehouse.spark.bitmaps import WORD_BITS
from lakehouse.table import BRONZE_RECORDS, GOLD_LATEST, GOLD_RECORDS, SILVER_RECORDS, SILVER_REJECTS
from pipelines.verify.remedies import check_table
from silver.audit import offset_bitmaps as bitmaps
from silver.audit.ledger_checks import as_of
from silver.extract.columns import from_bytes, sequenced
from silver.extract.payload import with_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.context import Run
    from pipelines.verify.snapshot import VerifySnapshot
    from silver.audit.ledger_checks import Row
    from silver.rules import Rules

_MOST_BROADCAST = 50_000_000
"""Limit on the kept records for which Silver's bitmap words are broadcast."""

_READ = "read_"
_READ_EPOCH = f"{_READ}epoch"
_GOLD = ("producer", "epoch", "sequence", "load_seq", "arrival")


class Offsets:
    """The comparison by offset. With `rules`, the rules of the last load, extracts sequences from Bronze again (`--deep`)."""

    def __init__(self, spark: SparkSession, run: Run, snapshot: VerifySnapshot, rules: Rules | None) -> None:
        self._spark, self._run, self._snapshot, self._rules = spark, run, snapshot, rules
        has_epochs = rules is not None and any(each.epoch for each, _ in rules.per_topic)
        read_again = ["headers", "producer", "sequence", *([_READ_EPOCH] if has_epochs else [])]
        self._columns = [*bitmaps.CONTENT, *(read_again if rules else [])]

    def findings(self) -> Iterator[Check]:
        """Yield the checks by offset, causes before consequences."""
        snapshot, run = self._snapshot, self._run
        rows = self._compared(is_doubled=bool(snapshot.count(REPLAY)))
        if any(row["doubled"] for row in rows if row["word"] is None) and not snapshot.count(REPLAY):
            rows = self._compared(is_doubled=True)
        wrong = [row for row in rows if row["word"] is not None]
        whole = [row for row in rows if row["word"] is None]
        offsets = Counter({(row["topic"], row["partition"]): row["offsets"] for row in whole})
        held = f"{sum(offsets.values()):,} offsets"
        yield check_table(run, "bronze_is_complete", BRONZE_RECORDS, _counted(snapshot.loads, offsets), held)
        yield check_table(run, "each_offset_once", SILVER_RECORDS, _wrong(wrong, _SILVER), f"{held}: kept, or kept out")
        kept = f"{sum(row['silver'] for row in whole):,} records as Bronze holds them"
        yield check_table(run, "silver_is_bronze", SILVER_RECORDS, self._differing(wrong), kept)
        if snapshot.published:
            kept = f"{sum(row['gold'] for row in whole):,} records as Silver holds them"
            yield check_table(run, "gold_is_silver", GOLD_RECORDS, _wrong(wrong, _PUBLISHED), kept)

    def _compared(self, *, is_doubled: bool) -> list[Row]:
        snapshot = self._snapshot
        nothing = F.lit(0).cast("bigint")
        hashed, whole = bitmaps.content_hash(self._columns).alias("hash"), bitmaps.content_hash(_GOLD, of="hash")
        kept = self._silver().where(F.col("load_seq") <= snapshot.finished)
        kept = self._as_in_gold(kept.select(*PLACE, *_GOLD, F.col("erased").isNotNull().alias("is_erased"), hashed))
        is_published = F.col("load_seq").isNotNull() & (F.col("load_seq") <= snapshot.published)
        is_published &= F.expr(snapshot.rejected.excluded) & ~F.col("is_erased")  # erased rows are not in Gold
        silver = bitmaps.by_word(kept, s=F.col("hash"), p=F.when(is_published, whole))
        words = [self._bronze_words(silver, is_doubled=is_doubled), silver]
        if not snapshot.is_plain:
            words.append(bitmaps.rejects_by_word(as_of(self._read(SILVER_REJECTS), snapshot.finished)))
        if snapshot.published:
            is_in_gold = F.col("load_seq") <= snapshot.published
            if GOLD_RECORDS in snapshot.versions:
                gold = self._with_read_epoch(self._read(GOLD_RECORDS)).where(is_in_gold)
                words.append(bitmaps.by_word(gold.select(*PLACE, *_GOLD, hashed), g=whole))
            if GOLD_LATEST in snapshot.versions:
                words.append(bitmaps.by_word(self._read(GOLD_LATEST).where(is_in_gold), l=nothing))
        has_producers = any(row["producer"] is not None for row in snapshot.loads)
        rows: list[Row] = bitmaps.compared(words, has_producers=has_producers).toArrow().to_pylist()
        return rows

    def _read(self, name: str) -> DataFrame:
        return self._snapshot.read(self._spark, self._run, name)

    def _as_in_gold(self, kept: DataFrame) -> DataFrame:
        """Replace load_seq by the load that added the row to Gold. For rows kept out: null, or the load that released them."""
        if not self._snapshot.kept_out:
            return kept
        names = (*PLACE, "state", "settled_load_seq")
        columns = "topic string, partition int, offset bigint, state string, settled_load_seq bigint"
        rows = frames.of_tuples(self._spark, [[row[name] for name in names] for row in self._snapshot.kept_out], columns)
        joined = kept.join(F.broadcast(rows), on=list(PLACE), how="left")
        brought = F.when(F.col("state").isNull(), F.col("load_seq")).when(F.col("state") == RELEASED, F.col("settled_load_seq"))
        return joined.withColumn("load_seq", brought).select(*kept.columns)

    def _bronze_words(self, silver: DataFrame, *, is_doubled: bool) -> DataFrame:
        hashed = self._bronze().select(*PLACE, bitmaps.content_hash(self._columns).alias("hash"))
        if is_doubled:  # Bronze holds some offsets twice: equal hashes would cancel out
            hashed = hashed.dropDuplicates(list(PLACE))
        if self._snapshot.is_plain:
            return bitmaps.by_word(hashed, b=F.col("hash"))
        mask = F.broadcast(silver) if self._snapshot.count("accepted") <= _MOST_BROADCAST else silver
        return bitmaps.by_word(bitmaps.masked(hashed, mask), b=F.when(F.col("is_kept"), F.col("hash")).otherwise(F.lit(0)))

    def _silver(self) -> DataFrame:
        return self._with_read_epoch(self._read(SILVER_RECORDS))

    def _with_read_epoch(self, rows: DataFrame) -> DataFrame:
        """Add the epoch of topics whose records carry one; null for others, because an operator may have declared it."""
        if self._rules is None:
            return rows
        is_read = by_topic([(topics, F.lit(each.epoch is not None)) for each, topics in self._rules.sources.kinds])
        return rows.withColumn(_READ_EPOCH, F.when(is_read, F.col("epoch")))

    def _bronze(self) -> DataFrame:
        """Return Bronze's records up to the last decided offset of each partition."""
        last = [(*partition, offset) for partition, offset in self._snapshot.last_offsets.items()]
        decided = frames.of_tuples(self._spark, last, "topic string, partition int, up_to bigint")
        records = self._read(BRONZE_RECORDS).join(F.broadcast(decided), on=["topic", "partition"], how="inner")
        records = records.where("offset <= up_to").drop("up_to")
        if self._rules is None:
            return records
        rules = with_schemas(self._spark, self._run, records, self._rules.of_sequences)
        return self._with_read_epoch(sequenced(from_bytes(records), rules))

    def _differing(self, wrong: Iterable[Row]) -> Iterator[Violation]:
        """Yield the bitmap words whose content differs, the first word with the exact offset."""
        expected = f"the same {', '.join(name.removeprefix(_READ) for name in self._columns)}"
        for nth, row in enumerate(row for row in wrong if row["differs"]):
            offset = self._first_differing(row) if nth == 0 else bitmaps.offset_of(row, "differs")
            yield _violation(row, offset, SILVER_RECORDS, "another content than in Bronze", expected)

    def _first_differing(self, row: Row) -> int:
        start: int = row["word"] << WORD_BITS
        is_within = (F.col("topic") == row["topic"]) & (F.col("partition") == row["partition"])
        is_within &= F.col("offset").between(start, start + 2**WORD_BITS - 1)
        hashed = bitmaps.content_hash(self._columns)
        bronze, silver = (
            dict(map(tuple, rows.where(is_within).select("offset", hashed).collect()))
            for rows in (self._bronze(), self._silver())
        )
        return min((offset for offset, found in silver.items() if bronze.get(offset) != found), default=start)


_SILVER = {
    "unknown": (SILVER_RECORDS, "a record that Bronze does not hold", "only records of Bronze"),
    "lost": (BRONZE_RECORDS, "a record that is neither in silver_records nor in silver_rejects", "each record in one of them"),
    "both": (SILVER_RECORDS, "a record that is in silver_rejects too", "each record in one of them"),
    "silver_twice": (SILVER_RECORDS, "a record that is there twice", "each record once"),
}
_PUBLISHED = {
    "gold_lost": (GOLD_RECORDS, "no record, though it is in silver_records and published", "every record of a published load"),
    "gold_more": (GOLD_RECORDS, "a record that no published load brought", "only records of published loads"),
    "gold_twice": (GOLD_RECORDS, "a record that is there twice", "each record once"),
    "gold_differs": (GOLD_RECORDS, "another content than in silver_records, there or in the 63 that follow", "equal rows"),
    "latest_unknown": (GOLD_LATEST, "a record that gold_records does not hold", "only records of gold_records"),
}


def _counted(loads: Iterable[Row], offsets: Counter[tuple[str, int]]) -> Iterator[Violation]:
    expected: Counter[tuple[str, int]] = Counter()
    for row in loads:
        expected[row["topic"], row["partition"]] += row["records"] - row[REPLAY]
    for topic, partition in sorted({**expected, **offsets}):
        observed, counted = offsets[topic, partition], expected[topic, partition]
        if observed != counted:
            where = f"{BRONZE_RECORDS}, topic {topic}, partition {partition}"
            said = f"{observed:,} offsets up to the last decided one"
            yield Violation(where, said, f"{counted:,}, as the ledger decided them")


def _wrong(rows: list[Row], problems: dict[str, tuple[str, str, str]]) -> Iterator[Violation]:
    for problem, (table, observed, expected) in problems.items():
        for row in rows:
            if row[problem]:
                yield _violation(row, bitmaps.offset_of(row, problem), table, observed, expected)


def _violation(row: Row, offset: int, table: str, observed: str, expected: str) -> Violation:
    where = f"{table}, topic {row['topic']}, partition {row['partition']}, offset {offset}"
    return Violation(where, observed, expected)
