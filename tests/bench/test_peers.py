"""What the benchmark sends, its processes of peers, and the table of their runs and results."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from bench import page, parts, run
from bench.growth import GROWN_LOAD, Sizes
from bench.keys import keys_of, murmur2, partition_of
from bench.peers.figures import Outcome, peers_table
from bench.peers.job import PREPARE, RUN, Answer, Job
from bench.peers.process import PeerFailedError, Process
from bench.peers.registry import CHECKED, FEW, PEERS, SWAPPED, TIMED
from bench.peers.rounds import Found
from bench.peers.sizes import Watch, topic_bytes, written
from bench.sitting import Measurement, RoundStart, Sitting, WrongResultError
from bench.topics import PARTITIONS, Topic, order, partition_records, plan_topic, swap_blocks
from bench.truth import Counts, count, split

EXACT = Counts(rows=99, lost=0, doubled=0, out_of_order=0)
OURS = Outcome("ours", FEW.name, 1, 1_000_000, 0, 4.0, 6.0, 10**9, 3 * 10**8, 7, 5_000, EXACT)

BURN = "import sys, time\nwhile time.process_time() < 0.6: pass\nprint(flush=True)\n"
LEFT_BEHIND = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {BURN + "sys.stdin.read()"!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
time.sleep(1.2)
os._exit(0)
"""
WAITED_FOR = f"""
import subprocess, sys, time
subprocess.run([sys.executable, "-c", {BURN!r}], stdout=subprocess.DEVNULL)
time.sleep(1.2)
"""


def test_a_job_and_an_answer_are_read_as_they_were_written() -> None:
    job = Job(RUN, peer="ours", servers="host:1", topic="t", records=5, root="/r=1/x", work="/w", after_version=0)
    assert Job.parse(job.line() + "\n") == job
    answer = Answer(table="/t", rejects="/r", version=3)
    assert Answer.parse(answer.line()) == answer


@pytest.mark.parametrize(
    ("script", "job", "said"),
    [
        ('import sys\nfor line in sys.stdin: print(\'{"error": "no room"}\', flush=True)', PREPARE, "no room"),
        ("import sys; sys.stdin.readline(); sys.exit('out of memory')", RUN, "^ended with 1; out of memory$"),
    ],
)
def test_a_peer_that_says_so_or_ends_has_failed(tmp_path: Path, script: str, job: str, said: str) -> None:
    with Process([sys.executable, "-c", script], tmp_path / "log") as process, pytest.raises(PeerFailedError, match=said):
        process.ask(Job(job))


def test_a_peer_that_ends_in_a_topic_is_shown_with_its_copy_and_its_own_results() -> None:
    lost = replace(OURS, peer="flink", round=0, counts=replace(EXACT, lost=1, out_of_order=2))
    text = peers_table(
        [replace(OURS, peer="flink"), replace(OURS, peer="flink_to_delta", seconds=10.0), lost], {"copy": "no | room"}
    )
    flink = "| Flink, keyed state, then copied to Delta | Kafka | **no**: 1 lost, 2 out of order (1 % resent) | 100,000 |  |"
    failed = r"| plain copy: failed, no \| room |"
    assert [line[:end] for line, end in zip(text.splitlines()[2:], map(len, (flink, failed)), strict=True)] == [flink, failed]


def test_ours_has_to_hold_exactly_the_late_records() -> None:
    held = replace(OURS, late=8, counts=replace(EXACT, held=8))
    assert held.is_as_promised
    assert not replace(held, late=9).is_as_promised
    assert not replace(OURS, counts=replace(EXACT, lost=1)).is_as_promised


def test_the_inputs_of_the_table_are_also_counted_and_peers_have_names_of_their_own() -> None:
    assert {SWAPPED, *TIMED} <= set(CHECKED)
    assert len({peer.name for peer in PEERS}) == len(PEERS)


def test_peers_are_saved_and_a_busy_machine_is_named_on_the_page(tmp_path: Path) -> None:
    busy = Measurement("Tidemark, Silver load", FEW.name, 1, 9, 4.0, 6.0, 1.25)
    page.save(tmp_path, Sitting([busy], [RoundStart(1, 0.1, 0.1)]), Found([OURS]), {"cores": 2})
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert "Each peer takes in 1,000,000 records" in text
    assert "| Tidemark, Silver load | Bronze | not counted | 250,000 |  | 1,000 | 0.01 |" in text
    assert "> **These figures do not count.**" in text
    assert "> - Tidemark, Silver load, 1 % resent, round 1: 1.25 cores" in text
    raw = json.loads((tmp_path / page.RAW).read_text(encoding="utf-8"))
    assert raw["is_valid"] is False
    assert raw["outcomes"][0] == asdict(OURS)


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


def lost_cpu_seconds(script: str) -> float:
    with subprocess.Popen([sys.executable, "-c", script]) as process, Watch(process.pid) as watch:
        process.wait()
    return watch.lost_cpu_seconds


def test_the_time_of_a_process_is_neither_taken_for_others_nor_counted_twice() -> None:
    assert 0.5 <= lost_cpu_seconds(LEFT_BEHIND) < 2
    assert lost_cpu_seconds(WAITED_FOR) < 0.1


def test_nor_is_it_where_that_parent_has_not_been_waited_for_itself() -> None:
    with subprocess.Popen([sys.executable, "-c", LEFT_BEHIND]) as process:
        with Watch(process.pid) as watch:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            time.sleep(1)  # a look at it while it is dead and still there
        assert 0.5 <= watch.lost_cpu_seconds < 2


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # what Kafka's own tests expect of its hash
        (b"21", -973932308),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_a_key_is_hashed_as_kafka_does(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed % 2**32


def test_every_partition_has_keys_that_a_producer_sends_there() -> None:
    found = {partition: keys_of(partition, PARTITIONS, 125) for partition in range(PARTITIONS)}
    assert all(partition_of(key, PARTITIONS) == partition for partition, keys in found.items() for key in keys)
    assert len({key for keys in found.values() for key in keys}) == PARTITIONS * 125


@pytest.mark.parametrize("records", [8_000, 20_000, 123_456])
def test_as_many_records_are_sent_as_were_planned(records: int) -> None:
    topic = swap_blocks(plan_topic("t", records, resent_share=0.2))
    sent = [outgoing for partition in range(PARTITIONS) for outgoing in partition_records(topic, partition)]
    assert len(sent) == topic.records == records
    assert len({(each.partition, each.headers[0][1]) for each in sent}) == sum(topic.unique)


def test_a_swapped_topic_sends_the_same_records_once() -> None:
    topic = swap_blocks(plan_topic("t", 4_000, resent_share=0.1))
    behind = 0
    for partition in range(PARTITIONS):
        sent = np.array(list(order(topic, partition)))
        assert sorted(sent) == list(range(1, topic.unique[partition] + 1))
        behind += (sent < np.maximum.accumulate(sent)).sum()
    assert behind == topic.late > 0


@pytest.mark.parametrize(
    ("topic", "found", "held", "expected"),
    [
        (Topic("t", (3, 2)), {0: [1, 2, 3], 1: [1, 2]}, {}, Counts(rows=5, lost=0, doubled=0, out_of_order=0)),
        (Topic("t", (3, 2)), {0: [1, 2, 3]}, {}, Counts(rows=3, lost=2, doubled=0, out_of_order=0)),
        (Topic("t", (4,), resends=((0, 2, 3),)), {0: [1, 2, 3, 2, 3, 4]}, {}, Counts(6, lost=0, doubled=2, out_of_order=1)),
        (Topic("t", (4,)), {0: [1, 3, 4]}, {0: [2]}, Counts(rows=3, lost=0, doubled=0, out_of_order=0, held=1)),
        (Topic("t", (2,)), {0: [1, 2]}, {0: [2]}, Counts(rows=2, lost=0, doubled=0, out_of_order=0)),
    ],
    ids=["exact", "a lost partition", "a copy sent again", "held is not lost", "held and kept counts as kept"],
)
def test_a_result_is_counted(topic: Topic, found: dict[int, list[int]], held: dict[int, list[int]], expected: Counts) -> None:
    as_arrays = ({partition: np.array(each) for partition, each in given.items()} for given in (found, held))
    counts = count(topic, next(as_arrays), held=next(as_arrays))
    assert (counts, counts.is_exact) == (expected, expected.lost + expected.doubled == 0)


def test_a_sequence_that_was_never_sent_is_no_result_and_no_rows_are_no_partitions() -> None:
    with pytest.raises(WrongResultError, match="sequences 1 to 9, sent were 1 to 3"):
        count(Topic("t", (3,)), {0: np.array([1, 9])})
    assert split(np.array([]), np.array([], dtype=np.int64)) == {}


def taken(name: str, pattern: str, *seconds: float, records: int = 100, peak_bytes: int | None = None) -> list[Measurement]:
    return [Measurement(name, pattern, nth, records, each, 1.0, 0.1, peak_bytes) for nth, each in enumerate(seconds, start=1)]


@pytest.mark.parametrize("most", [16_000, 123_457, 32_000_000])
def test_measured_loads_lie_around_the_named_history_and_divide_among_partitions(most: int) -> None:
    sizes = Sizes.up_to(most, 3)
    assert all(size % 8 == 0 for size in (*sizes.histories, sizes.load))
    assert sizes.before(sizes.histories[0]) > 0
    if most == 32_000_000:  # of five loads, the first two warm up
        starts = [sizes.before(500_000) + nth * sizes.load for nth in range(5)]
        assert starts == [200_000, 300_000, 400_000, 500_000, 600_000]


def test_the_page_shows_what_is_saved_and_names_what_was_never_run(tmp_path: Path) -> None:
    small = taken(GROWN_LOAD, "on 8", 4.0, peak_bytes=10**9)
    sitting = Sitting(small + taken(GROWN_LOAD, "on 32", 8.0, peak_bytes=10**9), [RoundStart(1, 0.2, 0.75)])
    parts.save(parts.file_of(tmp_path, parts.GROWTH), sitting, {"cores": 2, "in all": "9 minutes", "driver": "5g"})
    parts.save(parts.file_of(tmp_path, parts.COLD), Sitting(), {"cores": 2, "in all": "3 minutes"})
    page.write(tmp_path)
    text = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert "| Silver load of 100,000 on 32 records, against on 8 | 8.00 s, 2.00 times | at most 1.3 times | **no** |" in text
    assert "| shapes: no saved numbers; `make bench` measures them |  |  |  |" in text
    assert "> - before round 1: 0.75 cores" in text
    assert "- [growth](benchmarks/growth.json), `make bench-scale`, driver 5g\n" in text
    assert "Conditions: cores 2." in text
    assert "peers: no saved numbers; `make bench` measures them" in text


def test_the_committed_page_is_the_one_that_the_saved_numbers_give(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    shutil.copy(docs / page.RAW, tmp_path)
    shutil.copytree(docs / parts.FOLDER, tmp_path / parts.FOLDER)
    assert run.main(["--page", "--save", str(tmp_path)]) == 0
    assert (tmp_path / page.PAGE).read_text(encoding="utf-8") == (docs / page.PAGE).read_text(encoding="utf-8")
