"""What the benchmark sends, and how it counts what a peer made of it."""

from __future__ import annotations

import numpy as np
import pytest

from bench.keys import keys_of, murmur2, partition_of
from bench.sitting import WrongResultError
from bench.topics import PARTITIONS, Topic, order, partition_records, plan_topic, swap_blocks
from bench.truth import Counts, count, split


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # what Kafka's own tests expect of its hash
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
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
    for partition in range(PARTITIONS):
        sent = list(order(topic, partition))
        assert sorted(sent) == list(range(1, topic.unique[partition] + 1))
    behind = sum(
        sum(sequence < highest for sequence, highest in zip(sent, np.maximum.accumulate(sent), strict=True))
        for partition in range(PARTITIONS)
        for sent in [list(order(topic, partition))]
    )
    assert behind == topic.late > 0


def test_a_result_with_each_record_once_and_in_order_is_exact() -> None:
    counts = count(Topic("t", (3, 2)), {0: np.array([1, 2, 3]), 1: np.array([1, 2])})
    assert counts == Counts(rows=5, lost=0, doubled=0, out_of_order=0)
    assert counts.is_exact


def test_a_partition_that_is_missing_is_lost() -> None:
    assert count(Topic("t", (3, 2)), {0: np.array([1, 2, 3])}).lost == 2


def test_a_copy_that_is_sent_again_is_doubled_and_out_of_order() -> None:
    counts = count(Topic("t", (4,), resends=((0, 2, 3),)), {0: np.array([1, 2, 3, 2, 3, 4])})
    assert counts == Counts(rows=6, lost=0, doubled=2, out_of_order=1)


def test_what_is_held_is_not_lost() -> None:
    counts = count(Topic("t", (4,)), {0: np.array([1, 3, 4])}, held={0: np.array([2])})
    assert counts == Counts(rows=3, lost=0, doubled=0, out_of_order=0, held=1)


def test_what_is_held_and_in_the_result_too_counts_as_kept() -> None:
    assert count(Topic("t", (2,)), {0: np.array([1, 2])}, held={0: np.array([2])}).held == 0


def test_a_sequence_that_was_never_sent_is_no_result() -> None:
    with pytest.raises(WrongResultError, match="sequences 1 to 9, sent were 1 to 3"):
        count(Topic("t", (3,)), {0: np.array([1, 9])})


def test_no_rows_are_no_partitions() -> None:
    assert split(np.array([]), np.array([], dtype=np.int64)) == {}
