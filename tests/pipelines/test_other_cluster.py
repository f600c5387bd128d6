"""A topic is copied to another cluster, and back: every number is in Gold once, and every record is counted."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.contracts.silver import CLASSES
from lakehouse.errors import TopicRecreatedError
from lakehouse.run.context import Run
from lakehouse.table import BRONZE_RECORDS, GOLD_RECORDS, SILVER_LOADS
from pipelines import medallion
from tests.bronze.progress.test_topic_breaks import accept, job_of, read
from tests.pipelines.test_moved_topics import claim_a_load_and_die, counts, recreate
from tests.support.kafka import Sent, send
from tests.support.topics import records_of
from tidemark.extras.demo.broker import LocalBroker, create_topic

OLD, NEW, BACK = ({b"a": 0, b"b": 1, b"c": 2}, {b"a": 4, b"b": 1, b"c": 3}, {b"a": 0, b"b": 1, b"c": 1})
"""The partition of each producer: on the old cluster, on the new one, and on the old one again."""
_START = 1_780_000_000_000


@pytest.fixture
def new_cluster() -> Iterator[LocalBroker]:
    with LocalBroker() as started:
        yield started


def of(producer: str, *sequences: int, places: dict[bytes, int], epoch: int = 0, value: str | None = None) -> list[Sent]:
    """A producer's records. A record that is sent again is the same one, down to its timestamp."""

    def sent(sequence: int) -> Sent:
        headers = [("seq", b"%d" % sequence), ("producer", producer.encode()), ("epoch", b"%d" % epoch)]
        text = (value or f"{producer}{epoch}-{sequence}").encode()
        return Sent(text, producer.encode(), headers, places[producer.encode()], _START + 1_000 * epoch + sequence)

    return [sent(sequence) for sequence in sequences]


def copy(
    source: str, target: str, topic: str, partition_of: dict[bytes, int], *, first: int = 0, end: int | None = None
) -> int:
    """Copy records from `first` to before `end`, each to the partition of its key, and count them."""
    found = records_of(source, topic)[first:end]
    sent = (Sent(each.value, each.key, each.headers, partition_of[each.key or b""], each.timestamp) for each in found)
    send(target, topic, sent)
    return len(found)


def numbers(producer: str, last: int, epoch: int = 0) -> Sequence[tuple[str, int, int, bytes]]:
    return [(producer, epoch, each, f"{producer}{epoch}-{each}".encode()) for each in range(1, last + 1)]


def test_a_copied_topic_has_each_number_once_after_a_killed_copy_and_a_second_move(
    spark: SparkSession, run: Run, broker: LocalBroker, topic: Callable[..., str], new_cluster: LocalBroker
) -> None:
    name, old, new = topic(3), broker.bootstrap_servers, new_cluster.bootstrap_servers
    more = {"producer": {"header": "producer"}, "epoch": {"header": "epoch"}, "policies": {"max_quarantined_share": 1}}
    on_old, on_new = (job_of(spark, run, each, name, **more) for each in (broker, new_cluster))
    of_b = [*of("b", 1, 2, 3, 4, places=OLD), *of("b", 1, 2, 3, places=OLD, epoch=1)]
    send(old, name, [*of("a", 1, 2, 3, 3, 4, 5, 6, places=OLD), *of_b, *of("c", 1, 2, 4, places=OLD)])
    assert counts(medallion.run(on_old)) == (16, 1, 0, 0)
    # Never read on the old cluster: among them a5 again, and c3, which was skipped.
    send(old, name, [*of("a", 7, 8, 5, places=OLD), *of("b", 4, places=OLD, epoch=1), *of("c", 3, 5, places=OLD)])

    create_topic(new, name, 6)
    assert copy(old, new, name, NEW, end=12) == 12  # all of a, and b1 and b2 of epoch 0: then the copier is killed
    with pytest.raises(TopicRecreatedError) as moved:
        medallion.run(on_new)
    assert f"tidemark topic accept {name} --same-numbering" in str(moved.value.next_step)
    assert accept(on_new, name, numbering="same")["load_seq"] == 2
    claim_a_load_and_die(spark, run, on_new)
    assert copy(old, new, name, NEW, first=10) == 13  # from its last commit
    sent_again = [*of("a", 6, 8, places=NEW), *of("a", 2, places=NEW, value="other")]
    send(new, name, [*sent_again, *of("a", 9, places=NEW), *of("b", 5, places=NEW, epoch=1)])
    result: Any = medallion.run(on_new)
    assert (result["silver"]["repeated"], result["silver"]["loads"]) == ([3], [3, 4])
    # Accepted: a7 and a8 of the claimed load, then a9, b4 and b5 of epoch 1, c3 and c5.
    assert counts(result) == (7, 22, 0, 1)

    send(new, name, [*of("a", 10, places=NEW), *of("c", 6, 5, places=NEW)])  # never read on the new cluster
    recreate(old, name, 2)
    assert copy(new, old, name, BACK) == 33
    send(old, name, [*of("a", 11, 1, places=BACK)])
    with pytest.raises(TopicRecreatedError):
        medallion.run(on_old)
    assert accept(on_old, name, numbering="same")["stored_as"] == f"{name}@3"
    assert counts(medallion.run(on_old)) == (3, 31, 0, 1)

    rows = read(spark, run, GOLD_RECORDS, "producer", "epoch", "sequence")
    found = [(row["producer"], row["epoch"], row["sequence"], bytes(row["value"])) for row in rows]
    assert found == [*numbers("a", 11), *numbers("b", 4), *numbers("b", 5, epoch=1), *numbers("c", 6)]
    assert Counter(row["topic"] for row in rows) == {name: 16, f"{name}@2": 7, f"{name}@3": 3}
    ledger = read(spark, run, SILVER_LOADS, "load_seq")
    counted = {each: total for each in CLASSES if (total := sum(row[each] for row in ledger))}
    assert counted == {"accepted": 26, "duplicate": 54, "collision": 2}
    bronze = read(spark, run, BRONZE_RECORDS, "topic")
    assert len(bronze) == sum(row["records"] for row in ledger) == 82
    copies = {(bytes(row["value"]), bytes(row["key"]), row["timestamp"], str(row["headers"])) for row in bronze}
    assert len(copies) == 26 + 1, "the copier changes nothing"
    assert medallion.verify(on_old, is_deep=True)["ok"]
