"""The sequential reference: the rule of DESIGN section 1, read literally, one record after another."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """A record as the rule sees it; `sequence` is None where it cannot be read."""

    topic: str
    partition: int
    offset: int
    sequence: int | None
    producer: str | None = None
    epoch: int = 0
    payload: str = ""

    @property
    def stream(self) -> tuple[str, int, str | None]:
        """What names the record's stream."""
        return (self.topic, self.partition, self.producer)


@dataclass
class Outcome:
    """What the tables should say."""

    classes: dict[tuple[str, int, int], str] = field(default_factory=dict)
    watermarks: dict[tuple[str, int, str | None], tuple[int, int]] = field(default_factory=dict)
    payloads: dict[tuple[tuple[str, int, str | None], int, int], str] = field(default_factory=dict)


def decide(records: list[Seen], max_jump: int | None = None) -> Outcome:
    """Decide the records of a Kafka log, each exactly once, in offset order."""
    outcome = Outcome()
    for record in sorted(records, key=lambda record: record.offset):
        known = outcome.watermarks.get(record.stream)
        key = (record.stream, record.epoch, record.sequence or 0)
        if record.sequence is None:
            kind = "invalid"
        elif known is not None and record.epoch < known[0]:
            kind = "fenced"
        elif known is not None and max_jump is not None and record.epoch == known[0] and record.sequence - known[1] > max_jump:
            kind = "jump"
        elif known is None or (record.epoch, record.sequence) > known:
            kind = "accepted"
            outcome.watermarks[record.stream] = (record.epoch, record.sequence)
        elif key not in outcome.payloads:
            kind = "late"
        else:
            kind = "duplicate" if outcome.payloads[key] == record.payload else "collision"
        if kind == "accepted":
            outcome.payloads[key] = record.payload
        elif kind in ("late", "jump"):
            outcome.payloads.setdefault(key, record.payload)
        outcome.classes[record.topic, record.partition, record.offset] = kind
    return outcome
