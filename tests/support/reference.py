"""The sequential reference: the rule of docs/rule.md, read literally, one record after another."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakehouse.settings.formats import Undecodable
from lakehouse.settings.policies import Late

Stream = tuple[str, int, str | None]
Place = tuple[str, int, int]
Key = tuple[Stream, int, int]


@dataclass(frozen=True)
class Seen:
    """A record as the rule sees it; `sequence` is None where it cannot be read, and its value may be undecodable."""

    topic: str
    partition: int
    offset: int
    sequence: int | None
    producer: str | None = None
    epoch: int = 0
    payload: str = ""
    is_undecodable: bool = False
    is_skipped: bool = False  # a tombstone that the rules skip; it has no sequence

    @property
    def stream(self) -> Stream:
        return (self.topic, self.partition, self.producer)

    @property
    def place(self) -> Place:
        return (self.topic, self.partition, self.offset)

    @property
    def key(self) -> Key:
        """What Silver holds once."""
        assert self.sequence is not None
        return (self.stream, self.epoch, self.sequence)


@dataclass
class Reference:
    late: Late = "quarantine"  # the policy for late records
    max_jump: int | None = None  # the largest believed step
    max_jump_of: Mapping[str, int | None] = field(default_factory=dict)  # of topics that have their own
    classes: dict[Place, str] = field(default_factory=dict)  # of every record
    states: dict[Place, str] = field(default_factory=dict)  # held, released or discarded, of each record that is kept out
    silver: dict[Place, str] = field(default_factory=dict)  # how each record arrived that Silver holds
    watermarks: dict[Stream, tuple[int, int]] = field(default_factory=dict)  # epoch and sequence, where one was accepted
    gaps: list[tuple[Stream, int, int, int]] = field(default_factory=list)  # stream, epoch, first and last sequence
    undecodable: Undecodable = "quarantine"  # the policy for values that cannot be decoded
    continues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # topics that continue the numbering of earlier ones
    grown: Mapping[str, tuple[int, int] | None] = field(default_factory=dict)  # topics with more partitions, and their marks
    _kept: dict[Key, str] = field(default_factory=dict)
    _out: list[Seen] = field(default_factory=list)

    @property
    def missing(self) -> set[Key]:
        """What the watermarks stepped over and Silver lacks, each sequence on its own."""
        spans = ((stream, epoch, range(first, last + 1)) for stream, epoch, first, last in self.gaps)
        return {(stream, epoch, number) for stream, epoch, numbers in spans for number in numbers} - self._kept.keys()

    @property
    def known(self) -> list[tuple[Key, str]]:
        """The records that Silver holds, and those that were late, whatever became of them; each with its payload."""
        late = [(each.key, each.payload) for each in self._out if self.classes[each.place] == "late"]
        return [*self._kept.items(), *late]

    def take(self, records: Iterable[Seen]) -> "Reference":
        """Decide further records, each once, in offset order, or by partition if their topic got more partitions."""
        for record in sorted(records, key=lambda each: (each.partition if each.topic in self.grown else -1, each.offset)):
            kind = self.classes[record.place] = self._class_of(record)
            if kind == "accepted":
                self._raise(record)
                self._keep(record, "in_order")
            elif kind == "late" and self.late == "accept":
                self._keep(record, "late")
            else:
                self._out.append(record)
                gone = kind == "duplicate" or (kind == "late" and self.late == "drop") or record.is_skipped
                self.states[record.place] = "discarded" if gone else "held"
        return self

    def settle(self, kind: Literal["release", "discard"], is_meant: Callable[[Seen], bool]) -> None:
        """Release or discard what is held; a release leaves what has no sequence, and what Silver holds already."""
        for record in self._out:
            if self.states[record.place] != "held" or not is_meant(record):
                continue
            if kind == "discard":
                self.states[record.place] = "discarded"
            elif record.sequence is not None and record.key not in self._kept and not self._is_kept_elsewhere(record):
                self.states[record.place] = "released"
                self._raise(record)
                self._keep(record, "late")

    def _is_kept_elsewhere(self, record: Seen) -> bool:
        """Whether Silver holds the number in another incarnation with the same numbering, or in another partition."""
        groups = ({later, *earlier} for later, earlier in self.continues.items())
        linked = {topic for group in groups if record.topic in group for topic in group} - {record.topic}
        linked |= self.grown.keys() & {record.topic}
        kept = {(topic, producer, epoch, sequence) for (topic, _, producer), epoch, sequence in self._kept}
        return any((topic, record.producer, record.epoch, record.sequence) in kept for topic in linked)

    def _raise(self, record: Seen) -> None:
        stream, epoch, sequence = record.key
        known = self.watermarks.get(stream)
        if known is None or (epoch, sequence) > known:
            if known is not None and known[0] == epoch and sequence > known[1] + 1:
                self.gaps.append((stream, epoch, known[1] + 1, sequence - 1))
            self.watermarks[stream] = (epoch, sequence)

    def _keep(self, record: Seen, arrival: str) -> None:
        self.silver[record.place] = arrival
        self._kept[record.key] = record.payload

    def _class_of(self, record: Seen) -> str:
        if record.sequence is None or (record.is_undecodable and self.undecodable == "quarantine"):
            return "invalid"
        return self.settled_before(record) or self._class_in_stream(record, record.sequence)

    def _class_in_stream(self, record: Seen, sequence: int) -> str:
        known = self.watermarks.get(record.stream)
        if known is None or record.epoch > known[0]:
            return "accepted"
        if record.epoch == known[0] and sequence > known[1]:
            most = self.max_jump_of.get(record.topic, self.max_jump)
            return "jump" if most is not None and sequence - known[1] > most else "accepted"
        first = self._first_like(record)
        if first is None:
            return "late" if record.epoch == known[0] else "fenced"
        return "duplicate" if first == record.payload else "collision"

    def settled_before(self, record: Seen) -> str | None:
        """The class by what earlier incarnations accepted or found late, and what other partitions of a grown topic keep."""
        earlier, numbered = self.continues.get(record.topic, ()), (record.producer, record.epoch, record.sequence)
        known = [
            payload
            for ((topic, _, producer), epoch, sequence), payload in self.known
            if topic in earlier and (producer, epoch, sequence) == numbered
        ]
        if self._is_compared(record):
            known += [
                payload
                for ((topic, partition, producer), epoch, sequence), payload in self._kept.items()
                if topic == record.topic and partition != record.partition and (producer, epoch, sequence) == numbered
            ]
        if not known:
            return None
        return "duplicate" if record.payload in known else "collision"

    def _is_compared(self, record: Seen) -> bool:
        assert record.sequence is not None
        mark = self.grown.get(record.topic)
        return record.topic in self.grown and (mark is None or (record.epoch, record.sequence) <= mark)

    def _first_like(self, record: Seen) -> str | None:
        """The payload that was there first: Silver's, or a late one's. A jump is not there before it is released."""
        late = (each.payload for each in self._out if self.classes[each.place] == "late" and each.key == record.key)
        return self._kept[record.key] if record.key in self._kept else next(late, None)
