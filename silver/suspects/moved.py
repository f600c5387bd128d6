"""Settle the records of a recreated or grown topic by records known elsewhere. Rule: docs/rule.md.

An incarnation with the same numbering continues earlier ones: a number that one of them accepted or found late is known, in
any partition. A topic that got partitions is compared with itself: a number that another partition kept is known. Only
records at or below the highest watermark there are looked up. So the lookups end once a copy has caught up, or the numbers
are above that watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakehouse.contracts.silver import ACCEPTED, COLLISION, DUPLICATE, LATE, PLACE, STREAM
from lakehouse.spark import bitmaps, frames, pruning
from silver import model
from silver.columns import NONE, codes, filled, on_disk, row_codes, starts_of
from silver.model import SETTLED, tuples_of
from silver.suspects.compare import ERASED, KEY
from silver.suspects.resolve import accepted, are_below, content_sha256, contents_of, of_keys, with_content

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakehouse.contracts.silver import Ordinal, Partition, Stream
    from silver.columns import Flags, Numbers
    from silver.rules import Rules
    from silver.state.watermarks import Watermarks
    from silver.suspects.resolve import KnownRecords

NUMBER = ("topic", "producer", "epoch", "sequence")
"""The columns that identify a record across the partitions of a topic."""

_COUNTER = ("epoch", "producer")
_TYPES = pa.schema([(name, pa.int64() if name in ("epoch", "sequence") else pa.string()) for name in NUMBER])
_KEYS = pa.schema([*_TYPES, ("partition", pa.int32()), ("offset", pa.int64())])
_ERASED_LATER = f"{ERASED}later"  # the content of a known record that was erased after this load, which could compare it
_MOST_RANGES = 512
_ANY = (2**63 - 1, 2**63 - 1)
_SETTLED = (None, DUPLICATE, COLLISION)
_FREE, _DUPLICATE, _COLLISION = range(len(_SETTLED))


def settle(records: pa.Table, known: pa.Table) -> Numbers:
    """Return the class of each record by the known records of its number: an index of (None, duplicate, collision). Pure.

    One equal copy is enough for a duplicate. The content of an erased record is unknown: a later record is taken for a copy.

    Both tables have number and `content_sha256`. `known` may have a number several times; its topic is that of the records.

    >>> names = [*NUMBER, "content_sha256"]
    >>> records = pa.table([["t@2"] * 4, ["p"] * 4, [0] * 4, [1, 2, 3, 4], ["a", "b", "c", "d"]], names=names)
    >>> known = pa.table([["t@2"] * 4, ["p"] * 4, [0] * 4, [1, 2, 2, 3], ["a", "x", "b", "x"]], names=names)
    >>> settle(records, known).tolist()
    [1, 1, 2, 0]
    """
    count, schema = len(records), _TYPES.append(pa.field("content_sha256", pa.string()))
    both = pa.concat_tables([table.select(schema.names).cast(schema) for table in (records, known)])
    number, own = row_codes(both, NUMBER), both["content_sha256"].combine_chunks()
    one_of = np.full(int(number.max(initial=0)) + 1, NONE)
    one_of[number[count:]] = np.arange(count, len(both))
    nth = one_of[number[:count]]
    is_equal = pc.and_not(pc.equal(own[:count], own.take(pa.array(nth, mask=nth < 0))), pc.starts_with(own[:count], ERASED))
    kind = np.where(nth < 0, _FREE, _DUPLICATE)
    rest = np.flatnonzero((nth >= 0) & ~pc.fill_null(is_equal, fill_value=False).to_numpy(zero_copy_only=False))
    few = np.append(rest, count + np.flatnonzero(np.isin(number[count:], number[rest])))
    kind[rest] = _compare(number[few], own.take(pa.array(few)), len(rest))
    return kind


def _compare(number: Numbers, own: pa.Array, count: int) -> Numbers:
    """The class of the first `count` records, by number and content: the others know the number, perhaps several times."""
    content, contents = codes(pa.chunked_array([own]))
    same, _ = codes(pa.chunked_array([number * (len(contents) + 1) + content + 1]))
    texts = pa.concat_arrays([contents, pa.array([""])])  # the last is for null
    is_erased = pc.starts_with(texts, ERASED).to_numpy(zero_copy_only=False)[content]
    was_collision = pc.ends_with(texts, ":collision").to_numpy(zero_copy_only=False)[content]
    is_later = pc.equal(texts, _ERASED_LATER).to_numpy(zero_copy_only=False)[content]
    of_known = number[count:]
    is_copy = np.isin(same[:count], same[count:])
    is_copy |= np.isin(number[:count], of_known[(is_erased & ~is_later)[count:]])
    is_copy |= is_erased[:count] & np.isin(number[:count], of_known[is_erased[count:]])
    return np.where(is_copy & ~was_collision[:count], _DUPLICATE, _COLLISION)


class Moved:
    """Settles the records of a load by earlier incarnations, and by other partitions of a topic that grew, chunk by chunk.

    The arguments are those of `silver.suspects.resolve.Suspects`, with the rules and the number of the load.
    """

    def __init__(
        self,
        records: DataFrame,
        extracted: Callable[[], DataFrame],
        known: KnownRecords,
        rules: Rules,
        load_seq: int,
    ) -> None:
        self._records, self._extracted, self._known = records, extracted, known
        self._earlier: dict[str, tuple[str, ...]] = dict(rules.continues)
        self._grown: dict[str, Ordinal] = {topic: each.mark or _ANY for topic, each in rules.compared.items()}
        self._compared = {**self._grown, **dict.fromkeys(self._earlier, _ANY)}
        self._continued = {topic for earlier in self._earlier.values() for topic in earlier}
        self._others = self._continued | self._grown.keys()
        self._load_seq = load_seq
        self._highest: dict[tuple[str, str | None], dict[int, Ordinal]] = {}
        self._read: Watermarks | None = None
        self._own_places: set[Partition] = set()
        self._late: list[pa.Table] = []

    def in_order(self, chunks: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Reorder the chunks so that a record comes after all records that it may be compared with.

        All records of an incarnation come after those of the incarnations that it continues. The partitions of a topic that
        grew follow one another, if any of their records is compared.
        """
        if not self._compared:
            yield from chunks
            return
        waiting: dict[int, list[pa.Table]] = {}
        for keys in chunks:
            nth, topics = codes(keys["topic"])
            turns = np.array([len(self._earlier.get(topic, ())) for topic in topics.to_pylist()], np.int64)[nth]
            for turn in np.unique(turns).tolist() or [0]:  # a range may hold replays only
                part = keys if len(topics) == 1 else keys.filter(pa.array(turns == turn))
                if turn:
                    waiting.setdefault(turn, []).append(on_disk(part.unify_dictionaries()))
                else:
                    yield from self._by_partition(part)
        for turn in sorted(waiting):
            for part in waiting[turn]:
                yield from self._by_partition(part)

    def _by_partition(self, keys: pa.Table) -> Iterator[pa.Table]:
        """Yield each partition of a grown topic alone, if any of their records is compared.

        Sorted by topic and partition, as chunks are: the next chunk may continue the last partition.
        """
        nth, found = codes(keys["topic"])
        topics, partition = found.to_pylist(), keys["partition"].to_numpy()
        is_grown = np.array([topic in self._grown for topic in topics], bool)[nth]
        if not is_grown.any() or not (is_grown & self._are_near(keys)).any():
            yield keys
            return
        by_name = np.argsort(np.argsort(topics))
        place = (by_name[nth] << 32) + np.where(is_grown, partition, 0)
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(starts_of(np.where(is_grown, place, NONE)[order]))
        for rows in np.split(order, starts[1:]):
            yield keys.take(pa.array(rows))

    def add(self, segments: pa.Table) -> None:
        """Take the decided segments of a chunk: later chunks of the same load are compared with its records too."""
        if not self._compared:
            return
        risen = segments.filter(pc.equal(segments["class"], ACCEPTED))
        for topic, partition, producer, epoch, last in tuples_of(risen, (*STREAM, "epoch", "last_sequence")):
            if topic in self._others:
                self._raise((topic, partition, producer), (epoch, last))
                self._own_places.add((topic, partition))
        of_continued = pc.is_in(segments["topic"], pa.array(self._continued, pa.string()))
        late = segments.filter(pc.and_(of_continued, pc.equal(segments["class"], LATE)))
        self._late.append(late.rename_columns({"first_sequence": "sequence"}).select([*NUMBER, "content_sha256"]))

    def settled(self, keys: pa.Table, watermarks: Watermarks, out: Sequence[pa.Table]) -> pa.Table:
        """Return a chunk's key columns with `settled`: duplicate, collision, or null where the chunk's own streams decide.

        `watermarks` are those before the load, with retired streams; `out` as in `silver.suspects.resolve.Suspects`.
        """
        wanted, nth = self.wanted(keys, watermarks) if self._compared else (keys.slice(0, 0), np.zeros(0, np.int64))
        if not len(wanted):
            return keys
        kind = np.zeros(len(keys), np.int64)
        for first in range(0, len(wanted), model.LIMITS.suspects):
            part = wanted.slice(first, model.LIMITS.suspects)
            # One query sends its rows to the driver while the other computes.
            with ThreadPoolExecutor(1) as thread:
                contents = thread.submit(contents_of, self._records.sparkSession, part.select(PLACE), self._records)
                known = self._known_of(part, watermarks, out)
                kind[nth[first : first + len(part)]] = settle(with_content(part, contents.result()), known)
        return keys.append_column(SETTLED, pa.array(_SETTLED, pa.string()).take(pa.array(kind)))

    def _raise(self, stream: Stream, ordinal: Ordinal) -> None:
        topic, partition, producer = stream
        marks = self._highest.setdefault((topic, producer), {})
        marks[partition] = max(ordinal, marks.get(partition, ordinal))

    def wanted(self, keys: pa.Table, watermarks: Watermarks) -> tuple[pa.Table, Numbers]:
        """Return the records at or below the mark of their stream, and their row numbers in the chunk."""
        nth = np.flatnonzero(self._are_near(keys))
        rows = keys.select(_KEYS.names).take(pa.array(nth))
        if any(topic in self._compared for topic, _, _ in watermarks.declared):
            epochs = map(watermarks.declared.get, tuples_of(rows, STREAM))
            declared = pc.coalesce(pa.array(epochs, pa.int64()), rows["epoch"].cast(pa.int64()))
            rows = rows.set_column(rows.column_names.index("epoch"), "epoch", declared)
        if watermarks is not self._read:
            self._read = watermarks
            for stream, ordinal in watermarks.ordinals.items():
                if stream[0] in self._others:
                    self._raise(stream, ordinal)
        is_below = are_below(rows, self._mark)
        return rows.filter(pa.array(is_below)).cast(_KEYS), nth[is_below]

    def _are_near(self, keys: pa.Table) -> Flags:
        """Whether each record may need a lookup. Few do once the numbers of a grown topic are above its mark."""
        is_read = pc.is_null(keys["problem"]).to_numpy() & (filled(keys["epoch"]) != NONE) & (filled(keys["sequence"]) != NONE)
        near: Flags = is_read & are_below(keys, lambda names: self._compared.get(names[0]), ("topic",))
        return near

    def _mark(self, stream: Stream) -> Ordinal | None:
        """Return the highest number that a stream's records are compared with: its producer's highest elsewhere."""
        topic, partition, producer = stream
        marks = (self._highest.get((each, producer), {}) for each in self._earlier.get(topic, ()))
        found = [ordinal for each in marks for ordinal in each.values()]
        if topic in self._grown:
            own = self._highest.get((topic, producer), {})
            found += [min(ordinal, self._grown[topic]) for other, ordinal in own.items() if other != partition]
        return max(found, default=None)

    def _known_of(self, records: pa.Table, watermarks: Watermarks, out: Sequence[pa.Table]) -> pa.Table:
        """Return the known records of the same numbers elsewhere: the number, with the records' topic, and `content_sha256`."""
        topics = codes(records["topic"])[1].to_pylist()
        # A chunk has one partition of a grown topic, and this load has decided only those before it.
        current = {topic: records["partition"][0].as_py() for topic in topics if topic in self._grown}
        of_topic = {topic: (*self._earlier.get(topic, ()), *current.keys() & {topic}) for topic in topics}
        names = {name for each in of_topic.values() for name in each}
        places = {stream[:2] for stream in watermarks.rows if stream[0] in names} | self._own_places
        ranges = list(_ranges(records, of_topic, sorted(places - current.items())))
        own_records = records.filter(pa.array(are_below(records, lambda names: self._grown.get(names[0]), ("topic",))))
        numbers = [
            _under(own_records if each == topic else records, [topic], each)
            for topic, others in of_topic.items()
            for each in others
        ]
        sequences = _sequences(pa.concat_tables(numbers))
        sides = [_numbered(self._known.kept(ranges), sequences, self._content)]
        if own := [each for each in ranges if each[:2] in self._own_places]:
            sides.append(_numbered(accepted(self._extracted(), own, out), sequences, self._content))
        if earlier := [each for each in ranges if each[0] not in current]:
            sides.append(_numbered(self._known.late(earlier), sequences, lambda rows: rows["content_sha256"]))
        found = reduce(lambda one, other: one.unionByName(other), sides).toArrow()
        of_current = pa.array(list(current), pa.string())
        own_late = (rows.filter(pc.invert(pc.is_in(rows["topic"], of_current))) for rows in self._late)
        found = pa.concat_tables([found, *(rows.cast(found.schema) for rows in own_late)])
        return pa.concat_tables([_under(found, others, topic) for topic, others in of_topic.items()])

    def _content(self, rows: DataFrame) -> Column:
        content = content_sha256(rows)
        if "erased" not in rows.columns:
            return content
        is_later = F.coalesce(rows["erased"]["load_seq"] >= self._load_seq, F.lit(False))
        return F.when(is_later, _ERASED_LATER).otherwise(content)


def known_keys(rows: pa.Table, silver: DataFrame, rules: Rules) -> set[tuple[object, ...]]:
    """Return the keys of rejects whose number Silver holds in their stream, or in another one with the same numbering."""
    named = rows.filter(pc.and_(pc.is_valid(rows["epoch"]), pc.is_valid(rows["first_sequence"])))
    named = named.sort_by([(name, "ascending") for name in (*STREAM, "epoch", "first_sequence")])
    found: set[tuple[object, ...]] = set()
    for first in range(0, len(named), model.LIMITS.suspects):
        part = named.slice(first, model.LIMITS.suspects)
        keys = part.select([*STREAM, "epoch", "first_sequence"]).rename_columns(list(KEY))
        kept = silver.where(pruning.sequence_filter(pruning.ranges(part))).select(*KEY)
        found.update(tuples_of(of_keys(kept, frames.of_arrow(silver.sparkSession, keys)).toArrow(), KEY))
        linked = {topic: rules.linked(topic) for topic in pc.unique(keys["topic"]).to_pylist()}
        numbers = keys.select(NUMBER).cast(_TYPES)
        if others := [_under(numbers, [topic], other) for topic, names in linked.items() for other in names]:
            sought = pa.concat_tables(others)
            low, high = pc.min_max(sought["sequence"]).as_py().values()
            is_near = F.col("topic").isin(*pc.unique(sought["topic"]).to_pylist()) & F.col("sequence").between(low, high)
            elsewhere = _numbered(silver.where(is_near), _sequences(sought), content_sha256).select(*NUMBER).distinct()
            held = set(tuples_of(elsewhere.toArrow(), NUMBER))
            found.update(key for key in tuples_of(keys, KEY) if any((other, *key[2:]) in held for other in linked[key[0]]))
    return found


def _ranges(
    records: pa.Table, of_topic: Mapping[str, Sequence[str]], partitions: Sequence[tuple[str, int]]
) -> Iterator[pruning.Range]:
    """Sequence ranges that cover some records, in the partitions of the topics that they are compared with."""
    spans = records.rename_columns({"sequence": "first_sequence"})
    spans = spans.append_column("last_sequence", spans["first_sequence"])
    one = spans.set_column(spans.column_names.index("partition"), "partition", pa.repeat(pa.scalar(0, pa.int32()), len(spans)))
    found = pruning.ranges(one)
    if len(found) * len(partitions) > _MOST_RANGES:
        whole: dict[tuple[str, int], tuple[int, int]] = {}
        for topic, _, epoch, first, last in found:
            known = whole.get((topic, epoch), (first, last))
            whole[topic, epoch] = (min(first, known[0]), max(last, known[1]))
        found = [(topic, 0, epoch, *span) for (topic, epoch), span in whole.items()]
    for topic, _, epoch, first, last in found:
        yield from ((*place, epoch, first, last) for place in partitions if place[0] in of_topic[topic])


def _under(records: pa.Table, topics: Sequence[str], other: str) -> pa.Table:
    """Return the records of some topics, under the name of another topic."""
    rows = records.filter(pc.is_in(records["topic"], pa.array(topics)))
    return rows.set_column(rows.column_names.index("topic"), "topic", pa.repeat(other, len(rows)))


def _sequences(numbers: pa.Table) -> pa.Table:
    """Return the sequences of some numbers as `bitmaps.blocks`, with a hash of epoch and producer as partition."""
    nth = row_codes(numbers, _COUNTER)
    counters = tuples_of(numbers.take(pa.array(np.unique(nth, return_index=True)[1])), _COUNTER)
    texts = (" ".join(str(each) for each in counter if each is not None) for counter in counters)
    hashes = np.array([crc32(text.encode()) >> 1 for text in texts], np.int64)
    return bitmaps.blocks(pa.table({"topic": numbers["topic"], "partition": hashes[nth], "offset": numbers["sequence"]}))


def _numbered(rows: DataFrame, sequences: pa.Table, content: Callable[[DataFrame], Column]) -> DataFrame:
    """The number and `content_sha256` of the rows with one of the numbers, see `_sequences`."""
    hashed = F.shiftright(F.crc32(F.concat_ws(" ", *_COUNTER).cast("binary")), 1).cast("int")
    rows = rows.withColumns({"partition": hashed, "offset": F.col("sequence")})
    found = bitmaps.join(rows.sparkSession, rows, sequences, "left_semi")
    return found.select(*NUMBER, content(found).alias("content_sha256"))
