"""A sample of real topics: which records it has, and what it says of those that it has not."""

import time

from tests.bronze.test_ingest import kafka_of
from tests.conftest import Topics
from tests.support.kafka import Sent, delete_records, send, send_header_name, send_transaction, sequenced
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.onboarding import sample


def test_a_sample_has_both_ends_of_each_partition_and_says_what_it_leaves_out(broker: LocalBroker, topic: Topics) -> None:
    name, empty, cut, servers = topic(3), topic(), topic(), broker.bootstrap_servers
    send(servers, name, [*sequenced(*range(40)), *sequenced(1, 2, partition=1)])
    send(servers, cut, sequenced(*range(10)))
    delete_records(servers, cut, before=8)

    found = sample.read(kafka_of(broker, name, empty, cut, "no-such-topic"), 24)

    places = [each[:3] for each in found.records]
    of_name = [*((0, offset) for offset in (0, 1, 2, 3, 36, 37, 38, 39)), (1, 0), (1, 1)]
    assert places == sorted([*((name, *place) for place in of_name), (cut, 0, 8), (cut, 0, 9)])
    assert (found.available, found.tails, found.is_cut_short) == (44, {(name, 0): 36}, False)
    assert found.missing_topics == ["no-such-topic"]


def test_a_sample_has_whole_records_that_were_committed_and_no_others(broker: LocalBroker, topic: Topics) -> None:
    name = topic()
    send_transaction(broker.bootstrap_servers, name, sequenced(1, 2), commit=False)
    send(broker.bootstrap_servers, name, [Sent(b"v", key=b"k", headers=[("seq", b"7"), ("seq", None)], timestamp=1_000)])
    send(broker.bootstrap_servers, name, [Sent(None)])
    send_header_name(broker.bootstrap_servers, name, b"\xff", timestamp=int(time.time() * 1000))

    first, tombstone, unreadable = sample.read(kafka_of(broker, name), 100).records

    assert first == (name, 0, 3, b"k", b"v", (("seq", b"7"), ("seq", None)))
    assert (tombstone.value, tombstone.headers) == (None, ())
    assert (unreadable.value, unreadable.headers) == (b"named", None)
