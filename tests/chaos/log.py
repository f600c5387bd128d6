"""A topic as a plain client reads it, in the article's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.chaos.senders import ACKNOWLEDGED, REFUSED, UNSENT
from tests.chaos.setting import FIRST
from tests.support.published import Jumps
from tests.support.topics import records_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Log:
    """The records of a topic's partition, in the order of their offsets."""

    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def jumps(self) -> Jumps:
        """Count duplicates and deviations record by record, as the article's consumer does.

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
        """For each record, whether its number is above all numbers before it."""
        highest = np.maximum.accumulate(self.numbers)
        return np.concatenate(([True], self.numbers[1:] > highest[:-1]))

    def is_first(self) -> NDArray[np.bool_]:
        """For each record, whether its number comes for the first time."""
        found = np.zeros(len(self.numbers), np.bool_)
        found[np.unique(self.numbers, return_index=True)[1]] = True
        return found

    def columns(self, fates: NDArray[np.uint8]) -> dict[str, int]:
        """The article's columns of a run.

        Args:
            fates: The sender's record of each number, as `Sender.fates` returns it.
        """
        is_there = np.zeros(len(fates), np.bool_)
        is_there[self.numbers - FIRST] = True
        is_acknowledged, is_sent = fates == ACKNOWLEDGED, fates != UNSENT
        counted = {
            "SendCount": is_sent,
            "PosAckCount": is_acknowledged,
            "NegAckCount": fates == REFUSED,
            "NotReceived": is_acknowledged & ~is_there,
            "ReceivedNoAck": is_there & ~is_acknowledged,
            "Missing": is_sent & ~is_there,
            "Gap": ~is_there[self.numbers.min() - FIRST : self.numbers.max() - FIRST],
        }
        names = ("MsgsWithDups", "DJF", "DJB", "JF", "JB")
        return {name: int(flags.sum()) for name, flags in counted.items()} | dict(zip(names, self.jumps(), strict=True))


def read(servers: str, topic: str) -> Log:
    """Read a topic's only partition.

    Raises:
        TimeoutError: The brokers did not return all of it.
    """
    found = records_of(servers, topic, isolation="read_uncommitted")
    numbers = [int(record.value or b"") for record in found]
    return Log(np.array(numbers, np.int64), np.array([record.offset for record in found], np.int64))
