"""Where the long run's processes die."""

from __future__ import annotations

from tests.faults.kills import _ELSEWHERE, STAGES, crash_points


def test_every_stage_has_crash_points_to_die_at() -> None:
    assert {name.partition(".")[0] for name in crash_points()} >= set(STAGES)
    assert not _ELSEWHERE & set(crash_points())
