"""The options of the Kafka source, and the look whether a broker answers."""

from __future__ import annotations

import socket

import pytest

from bronze.kafka.source import reader_options, require_reachable
from lakehouse.errors import SourceError
from lakehouse.settings.pipeline import Kafka


def kafka(**others: object) -> Kafka:
    return Kafka.model_validate({"bootstrap_servers": "a:1,b:2", "topics": ["one", "two"], **others})


def test_the_promises_of_bronze_are_options_of_the_source() -> None:
    options = reader_options(kafka())
    expected = {
        "kafka.bootstrap.servers": "a:1,b:2",
        "subscribe": "one,two",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "1000000",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
    }
    assert {name: options[name] for name in expected} == expected


def test_every_client_property_passes_with_its_real_value_and_over_our_defaults() -> None:
    options = reader_options(kafka(properties={"client.id": "x", "sasl.password": "hunter2", "max.poll.records": "7"}))
    assert options["kafka.client.id"] == "x"
    assert options["kafka.sasl.password"] == "hunter2"
    assert options["kafka.max.poll.records"] == "7"


def test_our_api_timeout_gives_way_to_a_longer_request_timeout() -> None:
    assert reader_options(kafka())["kafka.default.api.timeout.ms"] == "30000"
    assert "kafka.default.api.timeout.ms" not in reader_options(kafka(properties={"request.timeout.ms": "60000"}))


def test_no_limit_is_no_option() -> None:
    assert "maxOffsetsPerTrigger" not in reader_options(kafka(max_offsets_per_trigger=None))


def test_offsets_per_partition_are_json_and_a_given_start_wins() -> None:
    start = kafka(starting_offsets={"one": {"0": 5}, "two": {"0": -2}})
    assert reader_options(start)["startingOffsets"] == '{"one": {"0": 5}, "two": {"0": -2}}'
    assert reader_options(start, "latest")["startingOffsets"] == "latest"


def test_one_server_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_reachable(f"127.0.0.1:1, PLAINTEXT://127.0.0.1:{server.getsockname()[1]}")


def test_servers_that_do_not_listen_are_all_named() -> None:
    with pytest.raises(SourceError) as refused:
        require_reachable("127.0.0.1:1,[::1]:1,no-such-host.invalid:9092")
    assert "127.0.0.1:1: Connection refused" in str(refused.value.observed)
    assert "::1:1: " in str(refused.value.observed)
    assert "no-such-host.invalid:9092: " in str(refused.value.observed)
