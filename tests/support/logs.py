"""Kafka logs that are drawn: odd producers, extreme numbers, records sent again, changed or read twice, cut into loads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.support.reference import Seen

LARGEST = 2**63 - 1
ALIKE: tuple[tuple[str | None, ...], ...] = (
    (None, "", " "),  # none, and two that show nothing
    ("a", "A", "a "),  # by case and trailing blanks
    ("\u00e9", "e\u0301", "e"),  # by normal form
    ("\uffff", "\U0001f40c", "\ue000"),  # UTF-16 sorts them otherwise than UTF-8 and code points do
    ("a", "a\x00", ""),
    (None, "null", "None"),
)  # names that something may take for one another, or sort in an order of its own

LOADS = 3
_NUMBERS = (*range(14), None, LARGEST, LARGEST - 1, LARGEST - 4)
_EPOCHS = (0, 0, 0, 1, LARGEST)
_STEPS = (1, 1, 2)
_UNDECODABLE = "not of the format"
_PAYLOADS = ("same", "same", "another", _UNDECODABLE)
_SIZES = (len(_NUMBERS), 3, len(_EPOCHS), len(_STEPS), 5, len(_PAYLOADS), 8)
_ENTRIES = 18 * 3 * 5 * 3 * 5 * 4 * 8
_MOST_ENTRIES = 10


@dataclass(frozen=True)
class Log:
    loads: tuple[tuple[Seen, ...], ...]  # the records of each load
    twice: frozenset[int]  # offsets that Bronze read a second time, in the same load

    def arrivals(self, load: int) -> list[Seen]:
        return [each for record in self.loads[load] for each in [record] * (1 + (record.offset in self.twice))]

    def in_topic(self, topic: str) -> "Log":
        return replace(self, loads=tuple(tuple(replace(each, topic=topic) for each in load) for load in self.loads))


def logs(*, with_epochs: bool, with_replays: bool) -> st.SearchStrategy[Log]:
    """One log of a partition. Drawn as few numbers, so that many logs fit into one example."""
    entries = st.lists(st.integers(0, _ENTRIES - 1), max_size=_MOST_ENTRIES)
    return st.builds(
        lambda about, sent: _log(about, sent, with_epochs=with_epochs, with_replays=with_replays),
        st.integers(0, len(ALIKE) * 2 * 51 * 51 - 1),
        entries,
    )


def _digits(number: int, sizes: Sequence[int]) -> Iterator[int]:
    for size in sizes:
        number, digit = divmod(number, size)
        yield digit


def _log(about: int, sent: Sequence[int], *, with_epochs: bool, with_replays: bool) -> Log:
    alike, is_far, *cuts = _digits(about, (len(ALIKE), 2, 51, 51))
    offset = (LARGEST - 2 * 5 * _MOST_ENTRIES if is_far else 0) - 1
    records: list[Seen] = []
    twice = set()
    for entry in sent:
        number, name, epoch, step, length, payload, repeat = _digits(entry, _SIZES)
        first = _NUMBERS[number]
        for nth in range(1 if first is None else min(length + 1, LARGEST - first + 1)):
            offset += _STEPS[step] if nth == 0 else 1  # compaction and transaction markers leave gaps
            of_epoch = _EPOCHS[epoch] if with_epochs else 0
            sequence = None if first is None else first + nth
            said = f"{_PAYLOADS[payload]} {sequence}"
            is_undecodable = _PAYLOADS[payload] == _UNDECODABLE
            seen = Seen("t", 0, offset, sequence, ALIKE[alike][name], of_epoch, said, is_undecodable=is_undecodable)
            records.append(seen)
        if with_replays and repeat == 0:
            twice.add(offset)
    first_cut, last_cut = sorted(cuts)
    return Log((tuple(records[:first_cut]), tuple(records[first_cut:last_cut]), tuple(records[last_cut:])), frozenset(twice))
