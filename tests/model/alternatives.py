"""Other ways to do a load, each with one thing done otherwise: what the model must find fault with.

`recover` compares the tables, and would refuse after some of these faults, or before. Where the question is what the steps do
by themselves, the checks are off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.decision import Protocol
from tests.model.tables import Version, World


@dataclass(frozen=True)
class Alternative:
    """One of them.

    Attributes:
        name: What is done otherwise.
        protocol: How.
        world: Where it shows.
    """

    name: str
    protocol: Protocol
    world: World = World()  # noqa: RUF009 -- frozen, so one default may serve all

    @property
    def with_checks(self) -> Alternative:
        """The same, with the checks of `recover`."""
        return replace(self, protocol=replace(self.protocol, has_checks=True))


WATERMARK_FIRST = Alternative(
    "the watermarks move before the records are written",
    Protocol(order=("claim", "advance", "append_silver", "append_rejects"), has_checks=False),
)
NO_TRANSACTIONS = Alternative("no transaction ids", Protocol(has_transactions=False, has_checks=False))
NO_CLAIM = Alternative(
    "no claim before the commit: the ledger is written after the records",
    Protocol(order=("append_silver", "append_rejects", "claim", "advance"), has_checks=False),
)
BATCH_IDS = Alternative(
    "transaction ids of a batch, under the runner's own checkpoint", Protocol(is_id_of_checkpoint=True, has_checks=False)
)
PLANS_ANEW = Alternative("an open claim is planned anew", Protocol(plans_claims_anew=True, has_checks=False))
NOT_READ_BACK = Alternative("a claim is not read back", Protocol(reads_back=False, has_checks=False))
REJECTS_LAST = Alternative(
    "the watermarks move before the rejects are written",
    Protocol(order=("claim", "append_silver", "advance", "append_rejects")),
)
MERGE_WITH_TRANSACTION = Alternative(
    "the MERGE of the watermarks has a transaction id",
    Protocol(merge_has_transaction=True),
    World(bronze=(Version(),), crashes=0, restores=1, has_person=True),
)
FORGETFUL_RELEASE = Alternative(
    "the repeat of a release chooses only what is held still",
    Protocol(repeat_knows_its_own=False),
    World(bronze=(Version(),), crashes=1, has_release=True),
)

_RESTORED = World(bronze=(Version(),), crashes=0, has_release=True, swaps=1)
SWAP_NOT_NOTED = Alternative(
    "a restore commits nothing under its own number to records and rejects",
    Protocol(swap_is_noted=False),
    World(crashes=0, swaps=1),
)
MARK_IS_BLIND = Alternative("what is released is marked without a look for a restore", Protocol(mark_looks=False), _RESTORED)
MARK_ONLY_LOOKS = Alternative(
    "the mark looks for a restore, and nothing makes it conflict with one that comes then",
    Protocol(swap_sets_property=False),
    _RESTORED,
)
ADVANCE_PAST_SWAP = Alternative(
    "the MERGE of the watermarks brings in what is not there, also beyond the next load",
    Protocol(advances_past_swaps=True),
    World(bronze=(Version(0), Version(1)), crashes=0, swaps=1),
)

ALTERNATIVES = (
    WATERMARK_FIRST,
    NO_TRANSACTIONS,
    NO_CLAIM,
    BATCH_IDS,
    PLANS_ANEW,
    NOT_READ_BACK,
    REJECTS_LAST,
    MERGE_WITH_TRANSACTION,
    FORGETFUL_RELEASE,
    SWAP_NOT_NOTED,
    MARK_IS_BLIND,
    MARK_ONLY_LOOKS,
    ADVANCE_PAST_SWAP,
)

LASTING = ("duplicate", "loss", "released nowhere")
"""The promises that alternatives are held to: a watermark that is ahead for a moment only is not what loses a record."""
