"""Which checkpoints a query must not continue with, as a table."""

import pytest

from bronze.progress.checkpoint import Checkpoint
from lakehouse.delta.tables import Streamed

PLANNED = {"t": {0: 5}}
WHOLE = Checkpoint("/c", 1, "q", offsets={0, 1}, commits={0, 1}, planned=PLANNED)
NEW = Checkpoint("/c", 1, None, offsets=(), commits=())
BEFORE_ITS_FIRST_COMMIT = Checkpoint("/c", 1, "q", offsets={0}, commits=(), planned=PLANNED)
LOST_COMMITS = Checkpoint("/c", 1, "q", offsets={0, 1, 2}, commits={0}, planned=PLANNED)
LOST_OFFSETS = Checkpoint("/c", 1, "q", offsets={0}, commits={0, 1}, planned=PLANNED)
LOST_METADATA = Checkpoint("/c", 1, None, offsets={0}, commits={0}, planned=PLANNED)
CUT_OFFSETS = Checkpoint("/c", 1, "q", offsets={0, 1}, commits={0}, planned=None)


@pytest.mark.parametrize(
    ("checkpoint", "streamed"),
    [
        (WHOLE, Streamed("q", 1, is_undone=False)),
        (WHOLE, None),
        (NEW, Streamed("other", 7, is_undone=False)),
        (BEFORE_ITS_FIRST_COMMIT, Streamed("other", 7, is_undone=False)),
    ],
)
def test_a_checkpoint_that_matches_the_table_is_intact(checkpoint: Checkpoint, streamed: Streamed | None) -> None:
    assert checkpoint.damage(streamed) is None


@pytest.mark.parametrize(
    ("checkpoint", "streamed", "reason"),
    [
        (LOST_METADATA, None, "its metadata is gone or cut off"),
        (CUT_OFFSETS, None, "its last offsets are cut off"),
        (LOST_COMMITS, None, "it planned batches up to 2 and finished 0"),
        (LOST_OFFSETS, None, "it planned batches up to 0 and finished 1"),
        (WHOLE, Streamed("other", 1, is_undone=False), "another one has written the table since"),
        (WHOLE, Streamed("q", 0, is_undone=False), "it finished batch 1, and the table was put back to an earlier one"),
        (WHOLE, Streamed("q", 1, is_undone=True), "it finished batch 1, and the table was put back to an earlier one"),
    ],
)
def test_a_damaged_checkpoint_is_refused(checkpoint: Checkpoint, streamed: Streamed | None, reason: str) -> None:
    assert checkpoint.damage(streamed) == reason
