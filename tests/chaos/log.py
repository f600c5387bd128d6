"""A run's topic as the brokers have it, read by a client that knows nothing of Tidemark, in the article's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.chaos.senders import ACKNOWLEDGED, REFUSED, UNSENT
from tests.chaos.setting import FIRST
from tests.support.published import Jumps
from tests.support.topics import records_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SECONDS = 60
_BATCH = 10_000


@dataclass(frozen=True)
class Log:
    """What a topic's partition holds.

    Attributes:
        numbers: The number of each record, in the order of offsets.
        offsets: Their offsets.
    """

    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def jumps(self) -> Jumps:
        """Count duplicates and deviations, record after record, as the article's consumer does.

        >>> sent = [*range(1, 11), *range(30, 41), *range(15, 30), *range(11, 15), *range(5, 11), *range(2, 5), *range(41, 45)]
        >>> Log(np.array(sent), np.arange(len(sent))).jumps()
        Jumps(duplicates=9, djf=0, djb=2, jf=2, jb=2)
        """
        seen: set[int] = set()
        counts = {(known, up): 0 for known in (False, True) for up in (False, True)}
        duplicates, before = 0, None
        for number in self.numbers.tolist():
            is_known = number in seen
            if before is not None and number != before + 1:
                counts[is_known, number > before] += 1
            duplicates += is_known
            seen.add(number)
            before = number
        return Jumps(duplicates, counts[True, True], counts[True, False], counts[False, True], counts[False, False])

    def is_above(self) -> NDArray[np.bool_]:
        """Of each record whether its number is above all before it."""
        highest = np.maximum.accumulate(self.numbers)
        return np.concatenate(([True], self.numbers[1:] > highest[:-1]))

    def is_first(self) -> NDArray[np.bool_]:
        """Of each record whether its number was not read before."""
        found = np.zeros(len(self.numbers), np.bool_)
        found[np.unique(self.numbers, return_index=True)[1]] = True
        return found


class Sent(NamedTuple):
    """A sender's side of a run, in the article's columns.

    Attributes:
        sent: Records sent.
        acknowledged: Of them those that were acknowledged.
        failed: Of them those that failed for good.
        lost: Acknowledged, and not in the topic.
        unacknowledged: In the topic, and never acknowledged.
        missing: Sent, and not in the topic, whether acknowledged or not.
        gap: Of them those with a number between two that are there: what a reader of the topic can notice.
    """

    sent: int
    acknowledged: int
    failed: int
    lost: int
    unacknowledged: int
    missing: int
    gap: int


def compare(fates: NDArray[np.uint8], log: Log) -> Sent:
    """What a sender knows of its records, against what the topic holds."""
    is_there = np.zeros(len(fates), np.bool_)
    is_there[log.numbers - FIRST] = True
    is_acknowledged = fates == ACKNOWLEDGED
    is_sent = fates != UNSENT
    told = (is_sent, is_acknowledged, fates == REFUSED)
    found = (is_acknowledged & ~is_there, is_there & ~is_acknowledged, is_sent & ~is_there)
    within = ~is_there[log.numbers.min() - FIRST : log.numbers.max() - FIRST]
    return Sent(*(int(each.sum()) for each in (*told, *found, within)))


def read(servers: str, topic: str) -> Log:
    """Read a topic's partition whole.

    Raises:
        TimeoutError: The brokers did not give all of it.
    """
    found = records_of(servers, topic, isolation="read_uncommitted")
    numbers = [int(record.value or b"") for record in found]
    return Log(np.array(numbers, np.int64), np.array([record.offset for record in found], np.int64))
