"""Settings that keep order are set, and what breaks it is refused with its reason."""

import copy
import pickle

import pytest
from tidemark_producer import Position, Stopped, UnsafeSetting
from tidemark_producer.settings import checked, drawn_keys


def test_what_keeps_order_is_set() -> None:
    assert checked({"bootstrap.servers": "here:9092"}) == {
        "bootstrap.servers": "here:9092",
        "log_level": 3,
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
        "acks": "all",
        "enable.gapless.guarantee": True,
        "message.timeout.ms": 0,
    }


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("acks", 0), ("acks", "1"), ("request.required.acks", 1)),
        *(("enable.idempotence", False), ("enable.idempotence", "False"), ("enable.gapless.guarantee", False)),
        *(("max.in.flight", 6), ("max.in.flight.requests.per.connection", "1000"), ("queuing.strategy", "lifo")),
        *(("retries", 0), ("message.send.max.retries", 5), ("message.timeout.ms", 300_000), ("delivery.timeout.ms", "120000")),
        *(("delivery.report.only.error", True), ("partitioner", "random")),
    ],
)
def test_what_breaks_order_or_loses_records_is_refused(setting: str, value: object) -> None:
    with pytest.raises(UnsafeSetting) as refused:
        checked({setting: value})
    assert (refused.value.setting, refused.value.value) == (setting, value)
    with pytest.raises(UnsafeSetting):
        checked({"default.topic.config": {setting: value}})


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("acks", "all"), ("acks", -1), ("enable.idempotence", "true")),
        *(("max.in.flight", 1), ("retries", 2**31 - 1), ("linger.ms", 0)),
    ],
)
def test_what_says_the_same_or_nothing_about_order_is_taken(setting: str, value: object) -> None:
    assert checked({setting: value})[setting] == value


def test_idempotence_is_off_with_one_request_in_flight_and_transactions_have_a_limit() -> None:
    one_in_flight = checked({"enable.idempotence": False, "max.in.flight": 1})
    transactional = checked({"transactional.id": "shop", "message.timeout.ms": 30_000})
    assert one_in_flight["enable.idempotence"] is False
    assert transactional["message.timeout.ms"] == 30_000
    assert not any("enable.gapless.guarantee" in taken for taken in (one_in_flight, transactional))
    with pytest.raises(UnsafeSetting, match="all 50 runs with a killed leader"):
        checked({"enable.idempotence": False, "max.in.flight": 2})


def test_an_error_says_the_same_after_it_went_to_another_process() -> None:
    with pytest.raises(UnsafeSetting) as refused:
        checked({"acks": "x" * 1_000})
    assert len(str(refused.value)) < 500
    for error in (refused.value, Stopped("It stopped.", [], [Position(1, 2)])):
        for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 -- made in this line
            assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("partitioner", "drawn"),
    [
        *(("murmur2_random", (None,)), ("fnv1a_random", (None,)), ("consistent_random", (None, b""))),
        *(("murmur2", ()), ("consistent", ())),
    ],
)
def test_the_keys_whose_partition_is_drawn_depend_on_the_partitioner(partitioner: str, drawn: tuple[bytes | None, ...]) -> None:
    assert drawn_keys(checked({"partitioner": partitioner})) == drawn
