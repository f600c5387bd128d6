"""`tidemark init` on real topics: what it says, what it writes, and when it writes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jobs.cli.commands import main
from jobs.first.init import Asked, init
from jobs.process.exit_codes import scrub_text
from lakehouse.config.load import load
from lakehouse.settings.extractor import Extractor
from tests.jobs.first.test_avro_values import written
from tests.support.answering_registry import answering
from tests.support.kafka import Sent, send, sequenced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bronze.dev_broker.broker import LocalBroker

pytestmark = pytest.mark.kafka

Init = "Callable[..., tuple[int, Any]]"


@pytest.fixture
def filled(broker: LocalBroker, topic: Callable[..., str]) -> Callable[..., str]:
    """Makes a topic with these records."""

    def make(*records: Sent, partitions: int = 1) -> str:
        name = topic(partitions)
        send(broker.bootstrap_servers, name, records)
        return name

    return make


@pytest.fixture
def begin(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs init for a topic in an empty folder; answers exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(topic: str, *more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["init", "--brokers", broker.bootstrap_servers, "--topic", topic, *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_config_is_written_that_names_what_was_found_and_the_commands_that_follow(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    name = filled(*sequenced(*range(1, 31)), *sequenced(*range(25, 40)))

    code, out, _ = begin(name, "--root", "./lake")

    settings = load("tidemark.yml", environ={})
    assert (code, settings.sequence, settings.pipeline) == (0, Extractor(header="seq"), name)
    assert settings.lakehouse.root == str(Path("lake").resolve())
    written = Path("tidemark.yml").read_text()
    assert "# header:seq is in 45 of 45 records: whole numbers, 1 to 39." in written
    assert "header:seq   fits: rises, without a gap; 6 records sent again" in out
    assert "key          no: ever-new keys scatter a stream" in out
    assert "offset       no: Kafka gives a new one" in out
    assert out.endswith("Next:\n  tidemark check\n  tidemark plan\n  tidemark run\n")
    assert not Path("lake").exists()


def test_a_file_that_is_there_is_replaced_only_by_force(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    name = filled(*sequenced(1, 2, 3))
    Path("tidemark.yml").write_text("mine")

    assert begin(name)[0] == 2
    assert Path("tidemark.yml").read_text() == "mine"
    assert begin(name, "--force")[0] == 0
    assert load("tidemark.yml", environ={}).kafka.topics == (name,)


def test_where_nothing_fits_no_config_is_written_and_the_producer_is_shown_what_to_add(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]], broker: LocalBroker
) -> None:
    name = filled(*(Sent(b'{"id": "o-%d"}' % (n % 7), key=b"k%d" % n) for n in range(30)))

    code, out, _ = begin(name)

    assert (code, Path("tidemark.yml").exists()) == (1, False)
    program = out[out.index("    from confluent_kafka") : out.index("\nSeveral producers")]
    exec(compile("\n".join(line[4:] for line in program.splitlines()), "shown", "exec"), {})  # noqa: S102 -- our own text
    command = out[out.index("Then again: tidemark ") + len("Then again: tidemark ") :].split()
    assert main([*command, "--sample", "2"]) == 1  # two records with it among thirty without
    assert command[:4] == ["init", "--brokers", broker.bootstrap_servers, "--topic"]


def test_of_several_that_fit_the_first_is_taken_and_it_is_said_by_which_order(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    name = filled(*(Sent(b'{"id": %d, "b": %d}' % (n, n), headers=[("seq", b"%d" % n)]) for n in range(30)))

    assert "first of several that fit" in " ".join(begin(name)[1].split())
    assert load("tidemark.yml", environ={}).sequence == Extractor(header="seq")
    code, out, _ = begin(name, "--sequence", "json:$.id", "--force")
    assert code == 0
    assert "as was asked" in out
    assert load("tidemark.yml", environ={}).sequence == Extractor(json="$.id")


def test_a_person_at_a_terminal_is_asked_for_what_is_missing_and_which_of_several(
    filled: Callable[..., str], broker: LocalBroker, tmp_path: Path
) -> None:
    name = filled(*(Sent(b'{"id": %d}' % n, headers=[("seq", b"%d" % n)]) for n in range(30)))
    answers = {
        "Kafka's brokers, host:port": broker.bootstrap_servers,
        "The topic, or several with commas between": name,
        "Where the tables go: a folder, or s3://bucket/path": "./here",
        "Which one, 1 to 2": "2",
    }
    asked: list[str] = []

    def ask(question: str, _default: str | None) -> str:
        asked.append(question)
        return answers[question]

    nothing = Asked(None, [], None, tmp_path / "own.yml", False, 100, [], {})
    assert init(nothing, ask=ask, as_json=False) == 0
    assert asked == list(answers)
    settings = load(tmp_path / "own.yml", environ={})
    assert (settings.sequence, settings.lakehouse.root) == (Extractor(json="$.id"), str(tmp_path / "here"))
    assert init(replace(nothing, is_forced=True, brokers=broker.bootstrap_servers, topics=[name]), ask=None, as_json=True) == 0


def test_a_sequence_of_each_producer_is_written_with_its_producer(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    records = [
        Sent(b"v%d" % n, headers=[("n", b"%d" % (n // 2 + 100 * (n % 2))), ("who", b"w%d" % (n % 2))]) for n in range(60)
    ]
    assert begin(filled(*records))[0] == 0
    settings = load("tidemark.yml", environ={})
    assert (settings.sequence, settings.producer) == (Extractor(header="n"), Extractor(header="who"))


def test_what_a_hostile_producer_sends_is_escaped_and_bounded_and_the_config_runs(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME_SECRET", "never-shown")
    names = ["\x1b[2J\r\n", "${env:HOME_SECRET}", "on: {x", "# y", "\u202etxt"]
    big = b'{"a": "' + b"x" * 900_000 + b'", "it\'s": 1, "\\u001b]0;": %d}'
    records = [
        *(Sent(big % n, headers=[*((name, b"%d" % n) for name in names), ("seq", b"%d" % n)]) for n in range(6)),
        *(Sent(b"[" * 50_000, headers=[("seq", b"%d" % n), ("seq", b"0")]) for n in range(6, 8)),
    ]
    name = filled(*records)

    _, out, _ = begin(name, "--sequence", "header:" + names[1])

    assert load("tidemark.yml", environ={}).sequence == Extractor(header=names[1])
    assert "never-shown" not in out + Path("tidemark.yml").read_text()
    assert not set(out) & {"\x1b", "\r", "\u202e"}
    assert max(map(len, out.splitlines())) < 2_000


def test_the_findings_as_json_name_every_candidate_with_its_numbers(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    name = filled(*sequenced(3, 4, 9))

    code, out, _ = begin(name, "--json")

    found = json.loads(out)
    assert (code, found["records"], found["chosen"]) == (0, 3, {"sequence": "header:seq"})
    (seq,) = [each for each in found["candidates"] if each["name"] == "header:seq"]
    assert (seq["present"], seq["lowest"], seq["highest"], seq["steps"]["gaps"]) == (3, 3, 9, 1)
    assert found["next"] == ["tidemark check", "tidemark plan", "tidemark run"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--property", "sasl.password=hunter2"], "A secret is given in plain text"),
        (["--property", 'sasl.jaas.config=a.B required username="u" password="hunter2";'], "A secret is given in plain text"),
        (["--property", "security.protocol"], "--property needs a name and a value"),
        (["--sequence", "key"], "--sequence names nothing that the config knows"),
        (["--sequence", "json:seq"], "--sequence names nothing that the config knows"),
        (["--producer", "offset"], "--producer names nothing that the config knows"),
        (["--sequence", "header:SEQ"], "No record of the sample has a sequence where --sequence names it"),
        (["--config", "no/such/folder/x.yml"], "There is no such folder"),
    ],
)
def test_a_wrong_option_ends_with_2_and_writes_nothing(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]], more: Sequence[str], said: str
) -> None:
    code, out, err = begin(filled(*sequenced(1, 2, 3)), *more)
    assert (code, out) == (2, "")
    assert said in err
    assert "hunter2" not in err
    assert not Path("tidemark.yml").exists()


def test_a_secret_is_written_as_the_reference_that_was_given(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2-hunter2")
    reference = "ssl.key.password=${env:BROKER_PASSWORD}"
    assert begin(filled(*sequenced(1, 2, 3)), "--property", reference)[0] == 0
    assert "    ssl.key.password: ${env:BROKER_PASSWORD}\n" in Path("tidemark.yml").read_text()
    assert scrub_text("hunter2-hunter2") != "hunter2-hunter2"


def test_a_topic_that_is_not_there_is_named_with_the_nearest_that_is(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    name = filled(*sequenced(1))
    code, _, err = begin(name + "x")
    assert code == 1
    assert f"Did you mean {name}?" in err or "topics that this login may see" in err


def test_values_of_a_schema_registry_are_told_and_the_config_says_how_their_fields_are_read(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    name = filled(
        *(replace(each, value=b"\0\0\0\0\7\x02a") for each in sequenced(*range(1, 31))), Sent(None, b"k", [("seq", b"31")])
    )
    code, said, _ = begin(name)
    assert (code, "the id of a schema in a registry, 7." in said) == (0, True)
    [command] = [line.strip() for line in said.splitlines() if line.startswith("  tidemark init ")]
    assert command.endswith(f" --topic {name} --registry http://localhost:8081 --force")
    with answering({7: ORDER}) as url:
        again = command.replace("http://localhost:8081", url).split()[1:]
        assert main(again) == 0
    written_by_it = load(Path("tidemark.yml")).value
    assert written_by_it is not None
    assert (written_by_it.format, written_by_it.schema_) == ("avro", "seq BIGINT")
    assert begin(name, "--force")[0] == 0
    text = Path("tidemark.yml").read_text()
    assert "# value: {format: avro, schema:" in text
    uncommented = text.replace("# value:", "value:")
    Path("tidemark.yml").write_text(uncommented)
    value = load(Path("tidemark.yml")).value
    assert value is not None
    assert (value.format, value.registry is not None) == ("avro", True)


ORDER_FIELDS = [{"name": "seq", "type": "long"}]
ORDER = {"schema": json.dumps({"type": "record", "name": "Order", "fields": ORDER_FIELDS})}
WIDE_FIELDS = [*ORDER_FIELDS, {"name": "who", "type": "string"}, {"name": "amount", "type": "double"}]
WIDE = {"type": "record", "name": "Order", "fields": WIDE_FIELDS}


def behind(number: int, *bodies: bytes) -> list[Sent]:
    return [Sent(b"\0" + number.to_bytes(4) + body, key=b"k") for body in bodies]


def avro(*sequences: int) -> list[Sent]:
    """Records of two producers, each of which counts for itself."""
    values = ({"seq": n // 2, "who": f"w{n % 2}\x1b[2J", "amount": n / 2} for n in sequences)
    return behind(7, *(written(WIDE, value) for value in values))


def test_the_fields_of_avro_values_are_looked_at_and_the_config_names_registry_and_fields(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_USER", "registry-reader")
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2-hunter2")
    name = filled(*avro(*range(60)), *avro(*range(40, 80)))
    login = [f"{key}=${{env:REGISTRY_{key[:4].upper().replace('PASS', 'PASSWORD')}}}" for key in ("username", "password")]
    options = [word for each in login for word in ("--registry-property", each)]

    with answering({7: {"schema": json.dumps(WIDE)}}) as url:
        code, out, _ = begin(name, "--registry", url, *options)

    assert code == 0, out
    assert "The registry has the schemas of these values: 7 (AVRO)." in out
    assert "no: double, such as 0.0" in out
    assert "it is of the type double" in out
    assert not set(out) & {"\x1b"}
    text = Path("tidemark.yml").read_text()
    assert "value:\n  format: avro\n  schema: seq BIGINT, who STRING, amount DOUBLE\n  registry:\n" in text
    assert "    username: ${env:REGISTRY_USER}\n    password: ${env:REGISTRY_PASSWORD}\n" in text
    settings = load("tidemark.yml")
    assert (settings.sequence, settings.producer) == (Extractor(field="seq"), Extractor(field="who"))
    assert settings.registry is not None
    assert settings.registry.username == "registry-reader"


def test_json_behind_a_prefix_is_looked_at_behind_it(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    schema = {"schema": '{"properties": {"n": {"type": "integer"}}}', "schemaType": "JSON"}
    name = filled(*behind(8, *(b'{"n": %d, "${env:HOME}": "", "at": "2026-01-01"}' % n for n in range(30))))
    with answering({8: schema}) as url:
        code, out, _ = begin(name, "--registry", url, "--json")
        assert (code, json.loads(out)["chosen"]) == (0, {"sequence": "json:$.n"})
        told = json.loads(out)["registry"]
        assert told["payloads"]["json"]["schema"] == "n STRING, at STRING"
        assert begin(name, "--registry", url, "--sequence", "json:$.n", "--force")[0] == 0
        assert main(["check"]) == 0


def test_what_the_registry_does_not_have_and_protobuf_are_told_and_a_header_is_found_all_the_same(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    bodies = [*behind(9, *(b"\0\x08\x01" for _ in range(20))), *behind(4711, b"x")]
    name = filled(*(replace(each, headers=[("seq", b"%d" % n)]) for n, each in enumerate(bodies)))
    with answering({9: {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}}) as url:
        code, out, _ = begin(name, "--registry", url)
    said = " ".join(out.split())
    assert (code, load("tidemark.yml").sequence, load("tidemark.yml").value) == (0, Extractor(header="seq"), None)
    assert "9: fields of Protobuf values are not looked at." in said
    assert "4711: The schema registry does not know the schema 4711." in said
    text = Path("tidemark.yml").read_text()
    assert "# The values begin with a zero byte" in text
    assert "no field is read here: fields of Protobuf" in " ".join(text.replace("\n# ", " ").split())


def test_topics_of_avro_and_json_each_have_their_value(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    first, second = filled(*avro(*range(0, 40, 2))), filled(*behind(8, *(b'{"n": %d}' % n for n in range(9))))
    plain = filled(*sequenced(*range(1, 9)))
    schema = {"schema": '{"properties": {"n": {"type": "integer"}}}', "schemaType": "JSON"}
    with answering({7: {"schema": json.dumps(WIDE)}, 8: schema}) as url:
        code, out, _ = begin(first, "--topic", second, "--topic", plain, "--registry", url)
    assert code == 0, out
    settings = load("tidemark.yml")
    values = {topic: settings.of_topic(topic).value for topic in (first, second, plain)}
    assert {topic: each and each.format for topic, each in values.items()} == {first: "avro", second: "json", plain: None}
    sequences = [settings.of_topic(topic).sequence for topic in (first, second, plain)]
    assert sequences == [Extractor(field="seq"), Extractor(json="$.n"), Extractor(header="seq")]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--registry", "http://127.0.0.1:1"], 1, "The schema registry cannot be reached"),
        (["--registry", "localhost:8081"], 2, "The registry cannot be used"),
        (["--registry", "http://ann:hunter2@localhost"], 2, "a password stands in the URL"),
        (["--registry", "http://x", "--registry-property", "password=hunter2"], 2, "A secret is given in plain text"),
        (["--registry", "http://x", "--registry-property", "url=http://y"], 2, "needs the name of a key"),
        (
            ["--registry", "http://x", "--registry-property", "password=${env:NO_SUCH_VARIABLE}"],
            2,
            "NO_SUCH_VARIABLE is not set",
        ),
        (
            ["--registry", "http://x", "--registry-property", "ca=none.pem", "--registry-property", "key=k"],
            2,
            "key without cert",
        ),
        (["--registry-property", "username=ann"], 2, "--registry-property is given without --registry"),
        (["--sequence", "field:seq"], 2, "Name the registry of the values: --registry"),
    ],
)
def test_a_registry_that_cannot_be_asked_ends_init_and_writes_nothing(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]], more: Sequence[str], code: int, said: str
) -> None:
    found, out, err = begin(filled(*avro(1, 2, 3)), *more)
    assert (found, out) == (code, "")
    assert said in err
    assert "hunter2" not in err
    assert not Path("tidemark.yml").exists()


def test_a_person_at_a_terminal_is_asked_for_the_registry_where_values_look_as_one_s_do(
    filled: Callable[..., str], broker: LocalBroker, tmp_path: Path
) -> None:
    name = filled(*avro(*range(0, 60, 2)))
    asked = Asked(broker.bootstrap_servers, [name], str(tmp_path), tmp_path / "own.yml", False, 100, [], {})
    questions: list[str] = []

    def answered(answer: str) -> Callable[[str, str | None], str]:
        def ask(question: str, _default: str | None) -> str:
            questions.append(question)
            return answer

        return ask

    assert init(asked, ask=answered(""), as_json=False) == 1  # nothing fits: the values are bytes
    with answering({7: {"schema": json.dumps(WIDE)}}) as url:
        assert init(asked, ask=answered(url), as_json=False) == 0
    assert questions == ["The schema registry's URL; nothing for none"] * 2
    assert load(tmp_path / "own.yml").sequence == Extractor(field="seq")


@pytest.mark.parametrize("value", [b"v", (7).to_bytes(8), b"\0\0", b""])
def test_values_of_another_kind_are_none_of_a_registry(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]], value: bytes
) -> None:
    same = [replace(each, value=b"\0\0\0\0\7\x02a") for each in sequenced(*range(1, 31))]
    code, said, _ = begin(filled(*same, replace(same[-1], value=value, headers=[("seq", b"31")])), "--json")
    assert (code, json.loads(said)["schema_ids"]) == (0, [])


def test_an_empty_topic_needs_a_sequence_that_is_named(
    topic: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    name = topic()
    code, out, _ = begin(name)
    assert (code, "no records yet" in out) == (1, True)
    assert begin(name, "--sequence", "header:seq")[0] == 0
    assert "nothing below is checked" in Path("tidemark.yml").read_text()


def test_topics_that_nothing_fits_together_are_each_read_by_what_fits_it(
    filled: Callable[..., str], begin: Callable[..., tuple[int, str, str]]
) -> None:
    first, second = filled(*sequenced(*range(1, 31))), filled(*sequenced(*range(1, 31)))
    odd = filled(*(Sent(b'{"n": %d, "by": "w%d"}' % (n // 2 + 100 * (n % 2), n % 2)) for n in range(40)))
    code, said, _ = begin(first, "--topic", second, "--topic", odd)
    assert code == 0, said
    assert f"Of {odd} it is json:$.n" in said
    settings = load(Path("tidemark.yml"))
    assert (settings.sequence.header, settings.producer, list(settings.topics)) == ("seq", None, [odd])
    own = settings.of_topic(odd)
    assert (own.sequence.json_path, own.producer and own.producer.json_path) == ("$.n", "$.by")
    assert main(["check"]) == 0
