"""What the benchmark makes of the peers' runs, and how it talks to them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from bench.peers import marks, page
from bench.peers.figures import checked, figures, percentile, small_quantiles
from bench.peers.job import PREPARE, RUN, Answer, Job
from bench.peers.outcome import Outcome, SmallLoad
from bench.peers.process import PeerFailedError, Process
from bench.peers.registry import CHECKED, CLEAN, FEW, MANY, PEERS, SWAPPED, TIMED
from bench.peers.rounds import Found
from bench.peers.sizes import topic_bytes, written
from bench.sitting import Measurement, RoundStart, Sitting
from bench.truth import Counts

if TYPE_CHECKING:
    from pathlib import Path

EXACT = Counts(rows=99, lost=0, doubled=0, out_of_order=0)
OURS = Outcome("ours", FEW.name, 1, 1_000_000, 0, 200.0, 4.0, 6.0, 9.0, 10**9, 3 * 10**8, 7, 5_000, EXACT)


def test_a_job_is_read_as_it_was_written() -> None:
    job = Job(RUN, peer="ours", servers="host:1", topic="t", records=5, root="/r=1/x", work="/w", after_version=0)
    assert Job.parse(job.line() + "\n") == job


def test_an_answer_is_read_as_it_was_written() -> None:
    answer = Answer(table="/t", rejects="/r", version=3)
    assert Answer.parse(answer.line()) == answer


def test_a_peer_that_says_that_it_failed_has_failed(tmp_path: Path) -> None:
    script = 'import sys\nfor line in sys.stdin: print(\'{"error": "no room"}\', flush=True)'
    with Process([sys.executable, "-c", script], tmp_path / "log") as process, pytest.raises(PeerFailedError, match="no room"):
        process.ask(Job(PREPARE))


def test_a_peer_that_ends_has_failed_with_the_last_thing_it_said(tmp_path: Path) -> None:
    script = "import sys; sys.stdin.readline(); sys.exit('out of memory')"
    with Process([sys.executable, "-c", script], tmp_path / "log") as process, pytest.raises(PeerFailedError) as failed:
        process.ask(Job(RUN))
    assert str(failed.value) == "ended with 1; out of memory"


def test_ours_is_held_against_the_copy_and_the_peers_that_were_timed_on_the_same_input() -> None:
    def took(peer: str, given: str, seconds: float) -> Outcome:
        return replace(OURS, peer=peer, input=given, seconds=seconds)

    on_few = [took("copy", FEW.name, 3.0), took("merge", FEW.name, 12.0), took("duckdb", FEW.name, 1.0)]
    on_many = [took("ours", MANY.name, 5.0), took("copy", MANY.name, 4.0), took("ours_from_kafka", FEW.name, 8.0)]
    others = [took("streams_to_delta", FEW.name, 6.0), took("row_number", MANY.name, 10.0), took("merge", CLEAN.name, 1.0)]
    found = marks.of_peers(figures([OURS, *on_few, *on_many, *others]))
    assert [(each.mark, each.measured, each.is_met) for each in found] == [
        ("at most 1.2 times its time", "1.33 times", False),
        ("at most 1.2 times its time", "1.25 times", False),
        ("at least 3 times its throughput", "2.00 times", False),
        ("at least 3 times its throughput", "3.00 times", True),
        ("at least 1 times its throughput", "0.75 times", False),
    ]


def test_small_loads_are_held_against_their_commits_and_the_slowest_against_the_median() -> None:
    found = marks.of_small({"ours": (10, 3.0, 6.6), "commits": (10, 2.5, 9.0), "merge": (10, 1.0, 1.0)})
    assert [(each.measured, each.is_met) for each in found] == [("1.20 times", True), ("2.20 times", False)]
    assert marks.of_small({"ours": (10, 3.0, 6.6)}) == []


def test_a_figure_is_the_median_of_the_rounds_with_its_worst_result() -> None:
    wrong = Counts(rows=98, lost=1, doubled=0, out_of_order=0)
    runs = [OURS, replace(OURS, round=2, seconds=2.0, cpu_seconds=None, counts=wrong), replace(OURS, round=3, seconds=5.0)]
    (figure,) = figures([*runs, replace(OURS, round=0, seconds=99.0)])
    assert (figure.seconds, figure.records_per_second, figure.megabytes_per_second) == (4.0, 250_000, 50.0)
    assert figure.cpu_seconds_per_million == 6.0
    assert figure.counts == wrong


def test_ours_has_to_hold_exactly_the_late_records() -> None:
    held = replace(OURS, late=8, counts=replace(EXACT, held=8))
    assert held.is_as_promised
    assert not replace(held, late=9).is_as_promised
    assert not replace(OURS, counts=replace(EXACT, lost=1)).is_as_promised


def test_small_inputs_count_for_correctness_alone() -> None:
    small = replace(OURS, round=0, input=SWAPPED.name)
    assert checked([OURS, small]) == {"ours": {SWAPPED.name: EXACT}}


def test_percentiles_are_taken_by_nearest_rank() -> None:
    assert percentile([float(n) for n in range(1, 101)], 99) == 99.0
    assert small_quantiles([SmallLoad("ours", each) for each in (3.0, 1.0, 2.0)]) == {"ours": (3, 2.0, 3.0)}


def test_every_peer_is_timed_on_the_input_of_the_chart_and_counted_on_all() -> None:
    assert all(FEW in peer.timed and set(peer.timed) <= set(TIMED) for peer in PEERS)
    assert {MANY, SWAPPED} < set(CHECKED)
    assert len({peer.name for peer in PEERS}) == len(PEERS)


def test_the_page_shows_figures_and_failures_and_is_made_from_what_is_kept(tmp_path: Path) -> None:
    copy, swapped = replace(OURS, peer="copy", seconds=3.0), replace(OURS, round=0, input=SWAPPED.name)
    held = replace(swapped, counts=replace(EXACT, held=8))
    found = Found([OURS, copy, held], [SmallLoad("ours", 2.5)], {"quix": "no | Python"})
    page.save(tmp_path, Sitting(), found, {"cores": 2})
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert "| Tidemark, Silver load | 1 % resent | 4.0 | 4.0 to 4.0 | 250,000 | 50 | 6.0 | 1,000 | 300 | 7 | 0.01 |" in text
    assert "| Tidemark, Silver load | did not run | did not run | did not run | 8 held |" in text
    assert "| Tidemark, Silver load | 1 | 2.50 | 2.50 |" in text
    assert r"did not run: no \| Python" in text
    assert "do not count" not in text
    assert json.loads((tmp_path / page.RAW).read_text(encoding="utf-8"))["outcomes"][0] == asdict(OURS)
    assert (tmp_path / "images" / page.CHART).read_text(encoding="utf-8").startswith("<svg")


def test_figures_of_a_busy_machine_are_not_shown_without_saying_so(tmp_path: Path) -> None:
    busy = Measurement("Tidemark, Silver load", FEW.name, 1, 9, 4.0, 6.0, 1.25)
    page.save(tmp_path, Sitting([busy], [RoundStart(1, 0.1, 0.1)]), Found([OURS]), {})
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert "> **These figures do not count.**" in text
    assert "> - Tidemark, Silver load, 1 % resent, round 1: 1.25 cores" in text
    assert json.loads((tmp_path / page.RAW).read_text(encoding="utf-8"))["is_valid"] is False


def test_sizes_follow_no_link_and_count_logs_of_a_topic_alone(tmp_path: Path) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    for name in ("out-00001-0", "out-00001-1", "out-00001-app-highest-changelog-0", "in-0"):
        (data / name).mkdir(parents=True)
        (data / name / "0.log").write_bytes(b"x" * 10)
        (data / name / "0.index").write_bytes(b"x" * 1_000)
    work.mkdir()
    (work / "bronze").symlink_to(data)
    (work / "file").write_bytes(b"xyz")
    assert written(work)[0] < 1_000
    assert topic_bytes(data, "out-00001") == (20, 10)
