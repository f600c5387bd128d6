"""`tidemark init` on real topics: what it says, what it writes, and when it writes nothing."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse.config.load import load
from lakehouse.settings.extractor import Extractor
from tests.support.answering_registry import answering
from tests.support.avro import record, written
from tests.support.decodings import prefixed
from tests.support.kafka import Sent, send, sequenced
from tidemark.commands.commands import main
from tidemark.extras.demo.broker import LocalBroker
from tidemark.extras.onboarding.init import Asked, init
from tidemark.process.exit_codes import scrub_text

Filled = Callable[..., str]
Begin = Callable[..., tuple[int, str, str]]


@pytest.fixture
def filled(broker: LocalBroker, topic: Callable[..., str]) -> Filled:

    def make(*records: Sent, partitions: int = 1) -> str:
        name = topic(partitions)
        send(broker.bootstrap_servers, name, records)
        return name

    return make


@pytest.fixture
def begin(broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Begin:
    """Runs init for a topic in an empty folder; answers exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(topic: str, *more: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["init", "--brokers", broker.bootstrap_servers, "--topic", topic, *more])
        said = capsys.readouterr()
        assert "--json" in more or len(said.out.splitlines()) <= 40
        assert "--json" in more or max(map(len, said.out.splitlines()), default=0) <= 100
        return code, said.out, said.err

    return run


def extractor(**form: str) -> Extractor:
    return Extractor.model_validate(form)


def asker(answers: dict[str, str]) -> tuple[list[str], Callable[[str, str | None], str]]:
    """A person who gives these answers, and the questions that they were asked."""
    asked: list[str] = []

    def ask(question: str, _default: str | None) -> str:
        asked.append(question)
        return answers[question]

    return asked, ask


def test_a_config_and_json_name_what_was_found_and_the_commands_that_follow(filled: Filled, begin: Begin) -> None:
    name = filled(*sequenced(*range(1, 31)), *sequenced(*range(25, 40)))

    code, out, _ = begin(name, "--root", "./lake")

    settings = load("tidemark.yml", environ={})
    assert (code, settings.sequence, settings.pipeline) == (0, extractor(header="seq"), name)
    assert settings.lakehouse.root == str(Path("lake").resolve())
    assert "# header:seq is in 45 of 45 records: whole numbers, 1 to 39." in Path("tidemark.yml").read_text()
    answer = "The sequence is header:seq: the only one that fits. Producer: none. Epoch: none. It rises, without a gap; 6"
    assert " ".join(out.split()).startswith(f"{answer} records sent again. Written: tidemark.yml.")
    assert "\n\nNext:\n  tidemark check\n  tidemark run\n" in out
    assert "key         ever-new keys scatter a stream" in out
    assert "offset      Kafka gives a new one" in out
    assert not Path("lake").exists()

    code, out, _ = begin(name, "--json", "--force")
    found = json.loads(out)
    assert (code, found["records"], found["chosen"]) == (0, 45, {"sequence": "header:seq"})
    (seq,) = [each for each in found["candidates"] if each["name"] == "header:seq"]
    assert (seq["present"], seq["lowest"], seq["highest"], seq["steps"]["resent"]) == (45, 1, 39, 6)
    assert found["next"] == ["tidemark check", "tidemark run"]


def test_numbers_that_repeat_across_partitions_are_named_in_the_config(filled: Filled, begin: Begin) -> None:
    for second, numbering in ((range(1, 6), "per_partition"), (range(6, 11), None)):
        name = filled(*sequenced(*range(1, 6)), *sequenced(*second, partition=1), partitions=2)
        assert begin(name, "--force")[0] == 0
        assert load("tidemark.yml", environ={}).policies.numbering == numbering


def test_files_are_replaced_by_force_and_keep_references(filled: Filled, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    name = filled(*sequenced(1, 2, 3))
    Path("tidemark.yml").write_text("mine")
    monkeypatch.setenv("BROKER_PASSWORD", "hunter2-hunter2")

    assert begin(name)[0] == 2
    assert Path("tidemark.yml").read_text() == "mine"
    assert begin(name, "--force", "--property", "ssl.key.password=${env:BROKER_PASSWORD}")[0] == 0
    assert load("tidemark.yml", environ={"BROKER_PASSWORD": "x"}).kafka.topics == (name,)
    assert "    ssl.key.password: ${env:BROKER_PASSWORD}\n" in Path("tidemark.yml").read_text()
    assert scrub_text("hunter2-hunter2") != "hunter2-hunter2"
    code, _, err = begin(name + "x", "--force")
    assert code == 1
    assert f"Did you mean {name}?" in err or "topics that this login may see" in err


def test_where_nothing_fits_no_config_is_written_and_a_way_is_shown(filled: Filled, begin: Begin, broker: LocalBroker) -> None:
    empty, name = filled(), filled(*(Sent(b'{"id": "o-%d"}' % (n % 7), key=b"k%d" % n) for n in range(30)))

    code, out, _ = begin(name)

    assert (code, Path("tidemark.yml").exists()) == (1, False)
    assert out.startswith(f"Nothing in the records of {name} fits as a sequence, so no config was written.")
    assert all(way in out for way in ("producer/", "--sequence offset: it guards against reading", "A MERGE by key"))
    program = out[out.index("    from tidemark_producer") : out.index("\n   Where the program")].replace(name, empty)
    for _ in range(2):  # the second start continues after the numbers of the first, which no run has read yet
        exec(compile("\n".join(line[4:] for line in program.splitlines()), "shown", "exec"), {})  # noqa: S102 -- our own text
    assert begin(empty)[0] == 0
    rises = "# Within the streams of the sample it rises, without a gap; only 4 records say so."
    assert rises in Path("tidemark.yml").read_text()
    Path("tidemark.yml").unlink()

    code, out, _ = begin(name, "--sequence", "offset", "--force")
    assert (code, "does not guard against resends" in " ".join(out.split())) == (0, True)
    Path("tidemark.yml").unlink()
    empty = filled()
    code, out, _ = begin(empty)
    assert (code, "no records yet" in out, Path("tidemark.yml").exists()) == (1, True, False)
    assert begin(empty, "--sequence", "header:seq")[0] == 0
    assert "from a sample of 0 records" in Path("tidemark.yml").read_text()


def test_of_several_that_fit_the_first_or_named_wins(filled: Filled, begin: Begin, broker: LocalBroker, tmp_path: Path) -> None:
    name = filled(*(Sent(b'{"id": %d, "b": %d}' % (n, n), headers=[("seq", b"%d" % n)]) for n in range(30)))
    assert "first of several that fit" in " ".join(begin(name)[1].split())
    assert load("tidemark.yml", environ={}).sequence == extractor(header="seq")
    code, out, _ = begin(name, "--sequence", "json:$.id", "--force")
    assert (code, "as was asked" in out) == (0, True)
    assert load("tidemark.yml", environ={}).sequence == extractor(json="$.id")

    answers = {
        "Kafka's brokers, host:port": broker.bootstrap_servers,
        "The topic, or several with commas between": name,
        "Where the tables go: a folder, or s3://bucket/path": "./here",
        "Which one, 1 to 3": "2",
    }
    asked, ask = asker(answers)
    nothing = Asked("", [], "", tmp_path / "own.yml", False, 100, [], {})
    assert init(nothing, ask=ask, as_json=False) == 0
    assert asked == list(answers)
    settings = load(tmp_path / "own.yml", environ={})
    assert (settings.sequence, settings.lakehouse.root) == (extractor(json="$.id"), str(tmp_path / "here"))
    assert init(replace(nothing, is_forced=True, brokers=broker.bootstrap_servers, topics=[name]), ask=None, as_json=True) == 0


def test_hostile_records_are_escaped_and_the_config_runs(filled: Filled, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_SECRET", "never-shown")
    names = ["\x1b[2J\r\n", "${env:HOME_SECRET}", "on: {x", "# y", "\u202etxt"]
    big = b'{"a": "' + b"x" * 900_000 + b'", "it\'s": 1, "\\u001b]0;": %d}'
    name = filled(
        *(Sent(big % n, headers=[*((name, b"%d" % n) for name in names), ("seq", b"%d" % n)]) for n in range(6)),
        *(Sent(b"[" * 50_000, headers=[("seq", b"%d" % n), ("seq", b"0")]) for n in range(6, 8)),
    )

    _, out, _ = begin(name, "--sequence", "header:" + names[1])

    assert load("tidemark.yml", environ={}).sequence == extractor(header=names[1])
    assert "never-shown" not in out + Path("tidemark.yml").read_text()
    assert not set(out) & {"\x1b", "\r", "\u202e"}


def test_values_of_a_registry_are_named_and_the_option_to_read_them(filled: Filled, begin: Begin) -> None:
    values = [replace(each, value=b"\0\0\0\0\7\x02a") for each in sequenced(*range(1, 31))]
    name = filled(*values, Sent(None, b"k", [("seq", b"31")]))
    code, said, _ = begin(name)
    assert (code, "the id of a schema in a registry, 7." in said) == (0, True)
    [options] = [line.split() for line in said.splitlines() if line.startswith("  --registry ")]
    assert options == ["--registry", "http://localhost:8081", "--force"]


WIDE = record("Order", seq="long", who="string", amount="double")


def behind(number: int, *bodies: bytes) -> list[Sent]:
    return [Sent(prefixed(number, body), key=b"k") for body in bodies]


def avro(*sequences: int) -> list[Sent]:
    """Records of two producers, each of which counts for itself."""
    values = ({"seq": n // 2, "who": f"w{n % 2}\x1b[2J", "amount": n / 2} for n in sequences)
    return behind(7, *(written(WIDE, value) for value in values))


def test_fields_of_avro_are_looked_at_and_in_the_config(filled: Filled, begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_USER", "registry-reader")
    monkeypatch.setenv("REGISTRY_PASSWORD", "hunter2-hunter2")
    name = filled(*avro(*range(60)), *avro(*range(40, 80)))
    login = ("username=${env:REGISTRY_USER}", "password=${env:REGISTRY_PASSWORD}")
    options = [word for each in login for word in ("--registry-property", each)]
    with answering({7: {"schema": json.dumps(WIDE)}}) as url:
        code, out, _ = begin(name, "--registry", url, *options)

    assert code == 0, out
    assert "The registry has the schemas of these values: 7 (AVRO)." in out
    assert "field:amount  fractions, such as 0.0" in out
    assert not set(out) & {"\x1b"}
    text = Path("tidemark.yml").read_text()
    assert "value:\n  format: avro\n  schema: seq BIGINT, who STRING, amount DOUBLE\n  registry:\n" in text
    assert "    username: ${env:REGISTRY_USER}\n    password: ${env:REGISTRY_PASSWORD}\n" in text
    settings = load("tidemark.yml")
    assert (settings.sequence, settings.producer) == (extractor(field="seq"), extractor(field="who"))
    assert settings.registry is not None
    assert settings.registry.username == "registry-reader"


def test_values_that_are_not_read_are_named_with_the_reason(filled: Filled, begin: Begin) -> None:
    faults = {
        b"\3\0" + bytes(16) + b"x": "it begins with the header of AWS Glue's registry",
        bytes(8) + b"\7x": "it begins with an id of eight bytes of a schema registry",
        b'\xef\xbb\xbf{"seq": 1}': "it begins with a byte order mark",
        b'[{"seq": 1}]': "a list",
    }
    names = [filled(*(Sent(value, headers=[("seq", b"%d" % n)]) for n in range(1, 13))) for value in faults]
    code, out, _ = begin(names[0], *(word for name in names[1:] for word in ("--topic", name)))
    said = " ".join(out.split())
    assert code == 0
    for name, fault in zip(names, faults.values(), strict=True):
        assert f"12 of 12 values of {name} are not read: {fault}." in said


def test_topics_of_avro_and_json_each_have_their_value(filled: Filled, begin: Begin) -> None:
    first, second = filled(*avro(*range(0, 40, 2))), filled(*behind(8, *(b'{"n": %d}' % n for n in range(9))))
    plain = filled(*sequenced(*range(1, 9)))
    schema = {"schema": '{"properties": {"n": {"type": "integer"}}}', "schemaType": "JSON"}
    with answering({7: {"schema": json.dumps(WIDE)}, 8: schema}) as url:
        code, out, _ = begin(first, "--topic", second, "--topic", plain, "--registry", url)
        assert code == 0, out
        assert main(["check"]) == 0
    settings = load("tidemark.yml")
    values = {topic: settings.of_topic(topic).value for topic in (first, second, plain)}
    assert {topic: each and each.format for topic, each in values.items()} == {first: "avro", second: "json", plain: None}
    sequences = [settings.of_topic(topic).sequence for topic in (first, second, plain)]
    assert sequences == [extractor(field="seq"), extractor(json="$.n"), extractor(header="seq")]


WRONG_OPTIONS = [
    ("--property sasl.password=hunter2", "A secret is given in plain text"),
    ('--property \'sasl.jaas.config=a.B required username="u" password="hunter2";\'', "A secret is given in plain text"),
    ("--property security.protocol", "--property needs a name and a value"),
    ("--sequence key", "--sequence names nothing that the config knows"),
    ("--sequence json:seq", "--sequence names nothing that the config knows"),
    ("--producer offset", "--producer names nothing that the config knows"),
    ("--sequence header:SEQ", "No record of the sample has a sequence where --sequence names it"),
    ("--config no/such/folder/x.yml", "There is no such folder"),
    ("--registry localhost:8081", "this is no address of a server"),
    ("--registry http://ann:hunter2@localhost", "the URL has a password"),
    ("--registry http://x --registry-property password=hunter2", "A secret is given in plain text"),
    ("--registry http://x --registry-property user=ann", "value.registry.user"),
    ("--registry http://x --registry-property password=${env:NO_SUCH_VARIABLE}", "NO_SUCH_VARIABLE is not set"),
    ("--registry http://x --registry-property ca=none.pem --registry-property key=k", "key without cert"),
    ("--registry-property username=ann", "value.registry.url"),
    ("--sequence field:seq", "A field needs --registry"),
    ("--registry http://127.0.0.1:1", "The schema registry cannot be reached"),
]


def test_a_wrong_option_or_registry_ends_init_and_writes_nothing(filled: Filled, begin: Begin) -> None:
    name = filled(*avro(1, 2, 3))
    for options, said in WRONG_OPTIONS:
        code, out, err = begin(name, *shlex.split(options))
        assert (code, out) == (1 if "cannot be reached" in said else 2, ""), options
        assert said in err, options
        assert "hunter2" not in err, options
        assert not Path("tidemark.yml").exists(), options


def test_a_person_is_asked_for_the_registry_of_prefixed_values(filled: Filled, broker: LocalBroker, tmp_path: Path) -> None:
    name = filled(*avro(*range(0, 60, 2)))
    given = Asked(broker.bootstrap_servers, [name], str(tmp_path), tmp_path / "own.yml", False, 100, [], {})
    question = "The schema registry's URL; nothing for none"
    asked, ask = asker({question: ""})
    assert init(given, ask=ask, as_json=False) == 1  # nothing fits: the values are bytes
    assert asked == [question]
    with answering({7: {"schema": json.dumps(WIDE)}}) as url:
        asked, ask = asker({question: url})
        assert init(given, ask=ask, as_json=False) == 0
    assert asked == [question]
    assert load(tmp_path / "own.yml").sequence == extractor(field="seq")


def test_a_config_proposes_fields_and_expectations_that_config_check_takes(filled: Filled, begin: Begin) -> None:
    value = b'{"n": %d, "amount": %d.5, "state": "%s", "${env:HOME}": 1, "mixed": %s}'
    name = filled(*(Sent(value % (n, n % 9, b"on: {" if n % 2 else b"'#", b"1.5" if n % 2 else b'"x"')) for n in range(60)))
    assert "It proposes value.schema and expectations." in " ".join(begin(name)[1].split())
    text = Path("tidemark.yml").read_text()
    assert "# value:\n#   format: json\n#   schema: n BIGINT, amount DOUBLE, state STRING\n" in text
    assert "mixed (fractions and text)" in " ".join(text.replace("\n# ", " ").split())
    assert load("tidemark.yml", environ={}).value is None

    Path("tidemark.yml").write_text(re.sub(r"(?m)^# (?=value:|gate:|  )", "", text))
    settings = load("tidemark.yml", environ={})
    proposed = {(each.name, each.arguments["column"]): each.arguments for each in settings.gate.expectations}
    assert len(proposed) == 5
    between = proposed["expect_column_values_to_be_between", "payload.amount"]
    assert (between["min_value"], between["max_value"]) == (0.5, 8.5)
    assert proposed["expect_column_values_to_be_in_set", "payload.state"]["value_set"] == ["'#", "on: {"]
    assert {each.severity for each in settings.gate.expectations} == {"warn"}
    assert main(["config", "check"]) == 0


def test_of_several_topics_only_those_that_lack_a_sequence_are_named(filled: Filled, begin: Begin) -> None:
    good, odd = filled(*sequenced(*range(1, 31))), filled(*(Sent(b'{"price": 1.5}') for _ in range(30)))
    empty = filled()
    code, out, _ = begin(good, "--topic", odd, "--topic", empty)
    said = " ".join(out.split())
    assert (code, Path("tidemark.yml").exists()) == (1, False)
    assert said.startswith(f"Nothing in the records of {odd} fits as a sequence, so no config was written.")
    assert f"The others have one: {good} (header:seq). Without --topic {odd}, init writes their config." in said
    assert f"Not a sequence in {odd}: json:$.price fractions, such as 1.5" in said
    assert f"in {good}:" not in said
    assert f"These topics have no records yet: {empty}." in said
    code, out, err = begin(good, "--topic", odd, "--sequence", "header:seq")
    assert (code, f"30 records of {odd} with json:$.price" in err) == (2, True)
    found = json.loads(begin(good, "--topic", odd, "--json")[1])
    assert {(each["topic"], each["name"]) for each in found["candidates"]} >= {(good, "header:seq"), (odd, "json:$.price")}


def test_topics_that_nothing_fits_together_are_each_read_by_what_fits_it(filled: Filled, begin: Begin) -> None:
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
