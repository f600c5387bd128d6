"""Alternative ways to do a load, each with one difference, and the fault that the model must find in it.

`recover` compares the tables, and would refuse after some of these faults, or before. The checks are off where the question is
the steps' own result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tests.model.decision import Protocol
from tests.model.tables import Version, World


class Alternative(NamedTuple):
    """A way to do a load, and the broken promise with the smallest number of steps to it."""

    name: str
    protocol: Protocol
    kind: str
    steps: int
    world: World = World()

    @property
    def with_checks(self) -> Alternative:
        """The same, with the checks of `recover`."""
        return self._replace(protocol=replace(self.protocol, has_checks=True))


_RELEASED = World(bronze=(Version(),), crashes=0, has_release=True, swaps=1)
_PUT_BACK = World(bronze=(Version(),), crashes=0, restores=1, has_person=True)
_TWO_PARTITIONS = World(bronze=(Version(0), Version(1)), crashes=0, swaps=1)

ALTERNATIVES = (
    Alternative(
        "the watermarks move before the records are written",
        Protocol(order=("claim", "advance", "append_silver", "append_rejects"), has_checks=False),
        *("loss", 9),
    ),
    Alternative("no transaction ids", Protocol(has_transactions=False, has_checks=False), "duplicate", 13),
    Alternative(
        "no claim before the commit: the ledger is written after the records",
        Protocol(order=("append_silver", "append_rejects", "claim", "advance"), has_checks=False),
        *("loss", 17),
    ),
    Alternative(
        "transaction ids of a batch, under the runner's own checkpoint",
        Protocol(is_id_of_checkpoint=True, has_checks=False),
        *("duplicate", 13),
    ),
    Alternative("an open claim is planned again", Protocol(replans_claims=True, has_checks=False), "duplicate", 21),
    Alternative("a claim is not read back", Protocol(reads_back=False, has_checks=False), "loss", 17),
    Alternative(
        "the watermarks move before the rejects are written",
        Protocol(order=("claim", "append_silver", "advance", "append_rejects")),
        *("loss", 10),
    ),
    Alternative(
        "the MERGE of the watermarks has a transaction id", Protocol(merge_has_transaction=True), "stuck", 11, _PUT_BACK
    ),
    Alternative(
        "the repeat of a release chooses only held records",
        Protocol(repeat_knows_its_own=False),
        *("stuck", 19, World(bronze=(Version(),), crashes=1, has_release=True)),
    ),
    Alternative(
        "a restore commits nothing under its own number to records and rejects",
        Protocol(swap_is_noted=False),
        *("duplicate", 36, World(crashes=0, swaps=1)),
    ),
    Alternative("a release does not look for a restore", Protocol(mark_looks=False), "released nowhere", 30, _RELEASED),
    Alternative(
        "the mark looks for a restore, but does not conflict with a later one",
        Protocol(swap_sets_property=False),
        *("released nowhere", 30, _RELEASED),
    ),
    Alternative(
        "the MERGE of the watermarks inserts missing rows, also beyond the next load",
        Protocol(advances_past_swaps=True),
        *("loss", 40, _TWO_PARTITIONS),
    ),
)

LASTING = ("duplicate", "loss", "released nowhere")
"""The promises that alternatives are checked for. A watermark that is ahead for a moment loses no record by itself."""
