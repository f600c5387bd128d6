"""`tidemark check` on real topics: a line for everything that a run needs, and what to do where it is missing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.contracts.bronze import OWNER
from lakehouse.settings.pipeline import ValueFormat
from lakehouse.table import Lakehouse
from tests.conftest import Topics
from tests.lakehouse.delta.test_root_check import table
from tests.support.avro import record, written
from tests.support.kafka import Sent, send, sequenced
from tests.support.small_config import write_config
from tests.tidemark.conftest import RunCommand
from tidemark.commands.commands import main
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.onboarding import check
from tidemark.extras.onboarding.values import Schema

Check = Callable[..., tuple[int, dict[str, dict[str, Any]]]]

pytestmark = pytest.mark.kafka

KAFKA = ("brokers", "sequence", "order", "values", "tables", "commits")


@pytest.fixture
def checked(broker: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Checks a config over a topic; answers the exit code and the findings by their names."""

    def check(topic: str, **more: Any) -> tuple[int, dict[str, dict[str, Any]]]:
        kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [topic]}
        config = write_config(tmp_path, root=str(tmp_path / "lake"), **{"kafka": kafka, **more})
        capsys.readouterr()
        code = main(["check", "--config", str(config), "--json"])
        return code, {each["name"]: each for each in json.loads(capsys.readouterr().out)}

    return check


@pytest.fixture
def filled(broker: LocalBroker, topic: Topics) -> str:
    """A topic with sequences 1 to 20, three records sent again, and one without a sequence."""
    name = topic(2)
    records = [*sequenced(*range(1, 11)), *sequenced(8, 9, 10), *sequenced(*range(11, 21)), Sent(b"\xff")]
    send(broker.bootstrap_servers, name, records)
    return name


def test_everything_that_a_run_needs_has_a_line_and_nothing_is_left_behind(filled: str, checked: Check, tmp_path: Path) -> None:
    code, found = checked(filled, value={"format": "text"})
    assert code == 0
    lacking = "1: there is no such header, path or byte range, or the extractor returned nothing"
    assert {name: found[name]["observed"] for name in ("sequence", "order", "values", f"topic {filled}")} == {
        "sequence": f"header:seq in 23 of 24 records, 1 to 20; {lacking}",
        "order": "rises, without a gap; 3 records sent again; 1 invalid",
        "values": "23 of 24 can be text; 1 not UTF-8",
        f"topic {filled}": "2 partitions, 24 offsets; 24 records read",
    }
    assert all(found[name]["ok"] for name in (*KAFKA, "config", "Java", "pyspark"))
    assert [each.name for each in tmp_path.iterdir()] == ["tidemark.yml"]


def test_json_that_is_no_object_is_named_by_what_it_is(broker: LocalBroker, topic: Topics, checked: Check) -> None:
    name = topic()
    faults = {
        b'\xef\xbb\xbf{"seq": 1}': "it begins with a byte order mark",
        b'{"seq": 1, "n": ' + b"9" * 1001 + b"}": "it has a number of more than 1,000 digits",
        b'[{"seq": 1}]': "a list",
        b'"{\\"seq\\": 1}"': "text that holds JSON",
    }
    send(broker.bootstrap_servers, name, [Sent(value) for value in faults for _ in range(10)])
    code, found = checked(name, sequence={"json": "$.seq"}, value={"format": "json", "schema": "seq BIGINT"})
    assert (code, found["sequence"]["ok"], found["values"]["ok"]) == (1, False, False)
    assert "(of the first, the value: not one document of strict JSON: it begins with a byte" in found["sequence"]["observed"]
    assert [why for why in faults.values() if f"10 no JSON object: {why}" not in found["values"]["observed"]] == []


def test_a_value_that_is_not_of_a_plain_avro_schema_is_named_with_its_header() -> None:
    schema = record("Item", id="long", qty="int")
    given = {"format": "avro", "schema": "id BIGINT", "avro_schema": json.dumps(schema)}
    value, item = ValueFormat.model_validate(given), {"id": 1000, "qty": 3}
    plain = written(schema, item)
    wrong = "not of value.avro_schema"
    expected = {
        plain: None,
        b"\0\0\0\0\x07" + plain: f"{wrong}: behind the prefix of a schema registry",
        b"\3\0" + bytes(16) + plain: f"{wrong}: behind the header of AWS Glue's registry",
        b"\xc3\1" + bytes(8) + plain: f"{wrong}: behind the header of Avro's single-object encoding",
        plain + b"\0": wrong,
        plain[:-1]: wrong,
    }
    assert {raw: check._undecodable(raw, value, Schema("AVRO", json.dumps(schema))) for raw in expected} == expected
    of_protobuf = ValueFormat.model_construct(format="protobuf", registry=None)
    assert check._undecodable(b"\0\0\0\0\x07\0", of_protobuf) == "no Protobuf: behind the prefix of a schema registry"
    of_json = ValueFormat.model_validate({"format": "json", "schema": "id STRING"})
    assert check._undecodable(b"\0\0\0\0\7{}", of_json) == "no JSON object: behind the prefix of a schema registry"


def test_what_the_records_lack_is_named_with_what_they_have(filled: str, checked: Check, run_command: RunCommand) -> None:
    code, found = checked(filled, sequence={"header": "SEQ"})
    assert (code, found["sequence"]["ok"]) == (1, False)
    assert "header:SEQ in 0 of 24 records" in found["sequence"]["observed"]
    assert "The records have header:seq" in found["sequence"]["next_step"]
    assert "\nNO  sequence " in run_command("check", code=1)[0]


def test_a_sequence_that_needs_a_producer_is_said_to(broker: LocalBroker, topic: Topics, checked: Check) -> None:
    name = topic()
    headers = [[("seq", b"%d" % (n // 2 + 100 * (n % 2))), ("who", b"w%d" % (n % 2))] for n in range(60)]
    send(broker.bootstrap_servers, name, [Sent(b"v%d" % n, headers=each) for n, each in enumerate(headers)])
    assert checked(name)[1]["order"]["ok"] is False
    code, found = checked(name, producer={"header": "who"})
    assert (code, found["producer"]["observed"]) == (0, "header:who in 60 of 60 records, 2 different")


def test_binary_numbers_are_no_sequence_without_their_encoding(broker: LocalBroker, topic: Topics, checked: Check) -> None:
    name = topic()
    send(broker.bootstrap_servers, name, [Sent(b"v%d" % n, headers=[("seq", n.to_bytes(8))]) for n in range(1, 13)])
    assert checked(name)[1]["sequence"]["ok"] is False
    code, found = checked(name, sequence={"header": "seq", "encoding": "int64"})
    assert (code, found["sequence"]["observed"]) == (0, "{header: seq, encoding: int64} in 12 of 12 records, 1 to 12")


def test_each_mistake_of_the_config_has_a_line_and_the_machine_is_looked_at(filled: str, checked: Check) -> None:
    code, found = checked(filled, sequenze={"header": "seq"}, policies={"late": "later"})
    assert code == 1
    assert {name for name, each in found.items() if not each["ok"]} == {"config sequenze", "config policies.late"}
    assert "sequence" in found["config sequenze"]["next_step"]


@pytest.mark.usefixtures("spark")
def test_tables_of_others_and_those_that_only_a_session_reaches_are_named(filled: str, checked: Check, tmp_path: Path) -> None:
    lakehouse = Lakehouse(root=str(tmp_path / "lake"))
    table(lakehouse, "bronze_records", **{OWNER: "theirs"})
    table(lakehouse, "strange")
    code, found = checked(filled)
    assert (code, found["tables"]["ok"]) == (1, False)
    assert "1 table of pipeline theirs, and tables that are not Tidemark's: strange" in found["tables"]["observed"]
    assert "These tables are another pipeline's" in found["tables"]["observed"]
    code, found = checked(filled, lakehouse={"catalog": "main", "schema": "s", "volume": "/Volumes/main/s/v"})
    assert (code, found["tables"]["ok"]) == (1, False)
    assert "main.s: reached by a session. " in found["tables"]["observed"]
