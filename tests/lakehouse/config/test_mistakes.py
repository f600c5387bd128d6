"""Every mistake that a config can hold gets an error with its key, its place and a way out."""

from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from lakehouse.config.load import ConfigMistakesError, load
from lakehouse.settings.kafka import _OWNED, Kafka
from tests.support.small_config import write_text

BASE = {
    "pipeline": "pipeline: incidents",
    "kafka": "kafka: {bootstrap_servers: 'localhost:9092', topics: [incidents]}",
    "lakehouse": "lakehouse: {root: ./lake}",
    "sequence": "sequence: {header: seq}",
}

# A key, words of the way out, and values that the key does not take.
VALUES: list[tuple[str, str, *tuple[str, ...]]] = [
    ("kafak", "Did you mean kafka?", "{}"),
    ("topics", "It belongs elsewhere: kafka.topics", "[a]"),
    ("Kafka", "Did you mean kafka?", "{}"),
    ("zzz", "one of pipeline, kafka, lakehouse", "1"),
    ("kafka", "Add at the top level: kafka:", ""),
    ("kafka", "a mapping of keys and values", "[a]"),
    ("pipeline", "For example pipeline: incidents", "my pipeline", "''", "[a]"),
    ("kafka.topcs", "Did you mean topics?", "[b]"),
    ("kafka.bootstrap_servers", "broker-1:9092", "localhost"),
    ("kafka.bootstrap_servers", "host:port", "'a:99999'"),
    ("kafka.bootstrap_servers", "localhost:9092", "['a:1']"),
    ("kafka.topics", "For example topics: [incidents]", "incidents", "[]"),
    ("kafka.topics", "Remove the second mention", "[a, a]"),
    ("kafka.starting_offsets", "earliest, latest", "begin"),
    ("kafka.starting_offsets", "from 1970 on", "2026-09-20", "2026-09-20T00:00", "1969-12-31T23:59:59.999Z", "{a: now}"),
    ("kafka.starting_offsets", '{incidents: {"0"', "{a: 5}"),
    ("kafka.starting_offsets", "-2 is its earliest", "{a: {0: -3}}"),
    ("kafka.starting_offsets", "kafka.topics", "{b: {0: 3}}"),
    ("kafka.max_offsets_per_trigger", "1000000", "0", "'5'"),
    ("kafka.properties", "security.protocol: SASL_SSL", "[a]"),
    ("lakehouse", "{root: ./lakehouse}", "{}"),
    ("lakehouse", "either root, or catalog and schema", "{root: ./a, catalog: main, schema: s}"),
    ("lakehouse", "{catalog: main, schema: tidemark}", "{catalog: main}"),
    ("sequence", "Put the sequence into a header", "key"),
    ("sequence.key", "Put the sequence into a header", "utf8"),
    ("sequence", "For example sequence: {header: seq}", "seq"),
    ("sequence", "exactly one of header, value, json, field, bytes, offset, custom", "{}"),
    ("sequence", "Keep one", "{header: a, json: $.b}"),
    ("sequence.value", "For example value: utf8", "int16"),
    ("sequence.json", "$.meta.seq", "seq", "$.a..b"),
    ("sequence.field", "For example field: meta.seq", "a..b"),
    ("sequence.bytes", 'bytes: "0:8"', "'8:0'", "8"),
    ("sequence.offset", "For example offset: true", "false"),
    ("sequence.custom", "mypackage.sequences:from_payload", "mypackage.fn"),
    ("sequence.debezium", "For example debezium: postgres", "oracle"),
    ("producer.debezium", "Leave the key out", "mysql"),
    ("epoch.debezium", "Leave the key out", "mysql"),
    ("producer.offset", "offset works as sequence only", "true"),
    ("value.format", "For example format: json", "xml"),
    ("policies.late", "For example late: quarantine", "ignore"),
    ("policies.contiguous", "For example contiguous: true", "yes"),
    ("policies.max_jump", "For example max_jump", "0", "1.5", "true"),
    ("policies.max_quarantined_share", "0 to 1", "50"),
    ("policies.max_quarantined_share", "a share is a number from 0 to 1", "20%"),
    ("policies.topics", "For example topics: {incidents: {late: accept}}", "[incidents]"),
    ("policies.topics.incident", "Did you mean incidents?", "{late: drop}"),
    ("policies.topics.incidents", "a mapping of keys and values", "accept"),
    ("policies.topics.incidents.late", "For example late: quarantine", "ignore"),
    ("policies.topics.incidents.max_jmp", "Did you mean max_jump?", "5"),
    ("maintenance.retain_hours", "allow_short_retention: true", "24"),
    ("maintenance.log_retain_days", "Raise log_retain_days", "3"),
    ("gate.data_docs", "For example data_docs: true", "yes"),
    ("gate.budgets.duplicates", "Did you mean duplicate?", "{warn: 1}"),
    ("gate.budgets.late", "For example late: {warn: 0}", "0", "5"),
    ("gate.budgets.late", "{warn: 0}", "{}"),
    ("gate.budgets.late.warn", "For example warn: 0", "-1"),
    ("gate.budgets.late.warn", "use late_share", "0.2"),
    ("gate.budgets.late_share.warn", "Write 20 % as 0.2", "20"),
    ("watch.metrics_file", "/var/lib/node_exporter/incidents.prom", "'s3://bucket/tidemark.prom'"),
    ("watch.metrics_port", "For example metrics_port: 9464", "70000"),
    ("watch.alerts.webhook.url", "https://hooks.example.org", "hooks.example.org", "'https://[::1'"),
    ("watch.alerts.mail_command", "[sendmail, ops@example.org]", "[]"),
    ("watch.alerts.mail_command", "a list", "mail"),
    ("watch.alerts.max_lag", "Name one of them", "5"),
    ("pipeline", "export NOT_SET=...", "${env:NOT_SET}"),
    ("pipeline", "${env:NAME} or ${secret:scope/key}", "${evn:X}", "${env:X"),
    ("policies.max_jump", "TIDEMARK_ variable", "'${env:SET}'"),
]

# What is written in a section, the key below the section that the error names, and words of the way out.
EXPECTATIONS = [
    ("expect_x", "", "an item of its own"),
    ("{expect_a: {}, expect_b: {}}", "", "an item of its own"),
    ("{ExpectColumn: {}}", ".ExpectColumn", "expect_column_values_to_be_between"),
    ("{expect_a: payload.id}", ".expect_a", "expect_a: {column: payload.id}"),
    ("{expect_a: {severity: fatal}}", ".expect_a.severity", "Leave it out for critical"),
]
MODELS = [
    *(
        (f"{{name: {name}, sql: here.sql}}", "0].name", "For example name: incidents_by_day")
        for name in ("by day", "_checkpoints", "_shadow", "_reports", "_watch", "_data_docs")
    ),
    ("{name: Gold_Latest, sql: here.sql}", "0].name", "another name"),
    ("{name: lag, sql: here.sql}", "0].name", "another name"),
    ("{name: a, sql: here.sql}, {name: A, sql: here.sql}", "1].name", "Rename one"),
    ("{name: a, sql: none.sql}", "0].sql", "Create the file"),
    ("{name: a, sql: reflect.sql}", "0].sql", "SECURITY.md says what a model may do"),
    ("{name: a, sql: latin.sql}", "0].sql", "Correct the file"),
    ("{name: a}", "0].sql", "sql/incidents_by_day.sql"),
]

# A client property, its value, and the way out.
PROPERTIES = [
    ("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd", "https://login.example.org"),
    ("sasl.oauthbearer.token.endpoint.url", "'https:///etc/passwd'", "https://login.example.org"),
    ("sasl.oauthbearer.token.endpoint.url", "http://a@2852039166/latest", "https://login.example.org"),
    ("sasl.oauthbearer.token.endpoint.url", "'http://[fe80::1]/latest'", "https://login.example.org"),
    ("sasl.kerberos.kinit.cmd", "/opt/kinit", "Leave it out"),
    ("ssl.truststore.location", "http://a/b", "/etc/kafka/truststore.p12"),
    ("sasl.oauthbearer.assertion.private.key.file", "file:/etc/passwd", "/etc/kafka/truststore.p12"),
    ("sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required a=b;", "ScramLoginModule"),
    ("sasl.jaas.config", "a.B required; com.sun.security.auth.module.LdapLoginModule optional;", "ScramLoginModule"),
    ("sasl.jaas.config", "'\"com.sun.security.auth.module.JndiLoginModule\" required;'", "ScramLoginModule"),
    ("sasl.jaas.config", "a.B required /* c=d; */;", "in double quotes"),
    ("sasl.login.callback.handler.class", "javax.management.loading.MLet", "the library's own class"),
    ("metric.reporters", "'a.B, java.lang.Runtime'", "the library's own class"),
    ("partition.assignment.strategy", "java.lang.Runtime", "the library's own class"),
    ("security.providers", "java.lang.Runtime", "the library's own class"),
    ("config.providers", "file", "${env:NAME}"),
    ("config.providers.file.class", "org.apache.kafka.common.config.provider.FileConfigProvider", "${env:NAME}"),
    ("bootstrap.servers", "x", "kafka.bootstrap_servers"),
    ("value.deserializer", "x", "Leave it out"),
    ("enable.auto.commit", "x", "with the tables"),
    ("auto.offset.reset", "x", "starting_offsets"),
    ("isolation.level", "read_uncommitted", "Remove the line"),
    ("kafka.acks", "x", "without the prefix: acks"),
    ("a", "{b: c}", "in quotes"),
]
IN_KAFKA = "kafka: {bootstrap_servers: 'b:1', topics: [a], properties:"
PROTOBUF = "value: {format: protobuf, schema: a INT, message: A, descriptor:"
REGISTRY = "value: {format: json, schema: a INT, registry: {url:"
WEBHOOK = "watch: {alerts: {webhook: {url: 'https://a/', headers:"


def at(key: str, value: str) -> str:
    section, *inner = key.split(".")
    if section != "kafka" or not inner:
        return f"{section}: {''.join(f'{{{name}: ' for name in inner)}{value}{'}' * len(inner)}"
    given = {"bootstrap_servers": "'b:1'", "topics": "[a]", inner[0]: value}
    return f"kafka: {{{', '.join(f'{name}: {text}' for name, text in given.items())}}}"


ODD_ROOTS = ("lake%20x", "./100%", r"'a\b'", r'"a\tb"', "'s3://bucket/a%2Fb'")

# What is written at a section (it replaces the right one), the key that the error names, and words of its way out.
MISTAKES: list[tuple[str, str, str]] = [
    *((at(key, value), key, way) for key, way, *values in VALUES for value in values),
    ("pipeline: a\npipeline: b", "pipeline", "Remove one of the two"),
    ("kafka: {topics: [a]}", "kafka.bootstrap_servers", "Add under kafka: bootstrap_servers: localhost:9092"),
    ("kafka: {bootstrap_servers: 'b:1'}", "kafka.topics", "Add under kafka: topics: [incidents]"),
    ("kafka: {bootstrap_servers: 'b:1', topics: ['inc.*']}", "kafka.topics[0]", "exact name"),
    ("kafka: {bootstrap_servers: 'b:1', topics: [a, ..]}", "kafka.topics[1]", "exact name"),
    *((f"{IN_KAFKA} {{{name}: {value}}}}}", f"kafka.properties.{name}", way) for name, value, way in PROPERTIES),
    ("lakehouse: {catalog: 'ma in', schema: s}", "lakehouse.catalog", "For example catalog: main"),
    ("lakehouse: {root: ./a, volume: /v}", "lakehouse.volume", "Remove volume"),
    ("lakehouse: {catalog: m, schema: s, volume: v}", "lakehouse.volume", "/Volumes/main/tidemark/tidemark"),
    *((f"lakehouse: {{root: {root}}}", "lakehouse.root", "Rename the folder") for root in ODD_ROOTS),
    ("sequence: {bytes: '0:6', encoding: int64}", "sequence.encoding", '"0:8"'),
    ("sequence: {bytes: '0:8', encoding: int32}", "sequence.encoding", '"0:4"'),
    ("sequence: {json: $.a, encoding: utf8}", "sequence.encoding", "only with header or bytes"),
    ("sequence: {value: utf8, encoding: utf8}", "sequence.encoding", "{value: int64}"),
    ("value: {format: json}", "value.schema", "id STRING, amount DOUBLE"),
    *((f"value: {{format: json, schema: {ddl}}}", "value.schema", "id STRING") for ddl in ("just_a_name", "'a ARRAY<INT'")),
    ("value: {format: text, schema: a INT}", "value.schema", "{format: text}"),
    *((f"value: {{format: {each}}}", "value.schema", "a schema for json, avro and protobuf") for each in ("avro", "protobuf")),
    ("value: {format: avro, schema: '`a-b` INT'}", "value.schema", "Write the fields as the values' own schema names them"),
    ("value: {format: protobuf, schema: a INT, message: A}", "value", "or descriptor and message, where none does"),
    (f"{PROTOBUF} 'base64:AA'}}", "value.descriptor", "protoc --include_imports"),
    (f"{PROTOBUF} 'base64:CggKAWEiAwoBQg=='}}", "value.message", "docs/formats.md"),
    ("value: {format: json, schema: a INT, message: A}", "value", "nothing for json"),
    ("value: {format: avro, schema: a INT, avro_schema: none.avsc}", "value.avro_schema", "like incident.avsc"),
    ("value: {format: avro, schema: a INT, avro_schema: '[]'}", "value.avro_schema", "Correct one of the two"),
    ("value: {format: text, tombstones: skip}", "value.tombstones", "Write tombstones: keep"),
    ("value: {format: text, registry: {url: 'http://r:8081'}}", "value", "nothing for text"),
    (f"{REGISTRY} 'file:///x'}}}}", "value.registry.url", "https://registry.example.org"),
    (f"{REGISTRY} 'http://a:b@r'}}}}", "value.registry.url", "password: ${env:"),
    (f"{REGISTRY} 'http://r', password: x}}}}", "value.registry.password", "Add username"),
    ("policies: {topics: {orders.v1: {}}}", "policies.topics.orders.v1", "Add it to kafka.topics"),
    ("gate: {budgets: {late: {warn: 5, critical: 1}}}", "gate.budgets.late.critical", "Swap the two"),
    *((f"gate: {{expectations: [{given}]}}", f"gate.expectations[0]{key}", way) for given, key, way in EXPECTATIONS),
    *((f"gold: {{models: [{given}]}}", f"gold.models[{key}", way) for given, key, way in MODELS),
    (f"{WEBHOOK} {{A b: c}}}}}}}}", "watch.alerts.webhook.headers.A b", "Authorization"),
    (f'{WEBHOOK} {{A: "b\\nc"}}}}}}}}', "watch.alerts.webhook.headers.A", "Remove the line end"),
    ("lakehouse: {root: 'abfss://c@a/l'}\nwatch: {metrics_port: 9464}", "watch", "{state_file: "),
]


def load_text(folder: Path, text: str, **outside: dict[str, str]) -> ConfigMistakesError:
    for name, query in {"here": b"SELECT 1", "reflect": b"SELECT reflect('a.B', 'c')", "latin": b"\xe9"}.items():
        (folder / f"{name}.sql").write_bytes(query)
    with pytest.raises(ConfigMistakesError) as raised:
        load(write_text(folder, text), environ=outside.get("environ", {}), overrides=outside.get("overrides"))
    return raised.value


@pytest.mark.parametrize(("written", "key", "way_out"), MISTAKES)
def test_a_mistake_is_named_with_key_line_and_way_out(tmp_path: Path, written: str, key: str, way_out: str) -> None:
    section = written.partition(":")[0]
    sections = {**BASE, section: written}
    error = load_text(tmp_path, "\n".join(sections.values()), environ={"SET": "5"})
    assert [mistake.key for mistake in error.mistakes] == [key], str(error)
    [found] = error.mistakes
    line = list(sections).index(section) + 1 + written.count("\n")
    assert found.place == f"{tmp_path / 'tidemark.yml'}:{line}"
    assert way_out in str(found)
    assert str(found) in str(error)


@pytest.mark.parametrize("section", BASE)
def test_a_required_section_that_is_left_out_is_named_with_an_example(tmp_path: Path, section: str) -> None:
    error = load_text(tmp_path, "\n".join(text for name, text in BASE.items() if name != section))
    assert [mistake.key for mistake in error.mistakes] == [section]
    assert f"Add at the top level: {section}: " in error.mistakes[0].next_step


def aliases(levels: int, inner: str) -> str:
    """Lists that each hold the one before, so that a few lines stand for many levels or values."""
    names = [f"a{number}" for number in range(levels)]
    return "a0: &a0 [a]\n" + "".join(f"{new}: &{new} [{inner.format(*[old] * 10)}]\n" for old, new in pairwise(names))


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "", "the file holds no settings"),
        ("- a\n- b\n", "", "observed: a list"),
        ("pipeline: a\n---\npipeline: b\n", ":2, column 1", "a second document begins there"),
        ("just text\n", "", "observed: a single value"),
        ("pipeline: a\nkafka: {topics: [a\n", ":3, column 1", "not valid YAML"),
        ("pipeline: a\nkafka:\n\ttopics: [a]\n", ":3, column 1", "Replace the tab by spaces"),
        ("pipeline: *name\n", ":1, column 11", "in quotes"),
        ("pipeline: !!python/name:os.system x\n", ":1, column 11", "not valid YAML"),
        ("pipeline: !!null x\n", ":1, column 11", "a value that its tag does not allow"),
        *((f"silver: !!{odd}\n", ":1, column 9", "its tag does not allow") for odd in ("int many", "bool no", "float x")),
        ("a: &a [*a]\n", ":1, column 4", "an alias that contains itself"),
        ("? [a]\n: b\n", ":1, column 3", "a key that is no plain name"),
        ("pipeline: a\x07b\n", "", "not valid YAML"),
        ("pipeline: " + "[" * 1_500 + "]" * 1_500, ":1, column 111", "more than 100 levels"),
        ("{a: " * 1_500, ":1, column 402", "more than 100 levels"),
        (aliases(600, "[*{}]"), ":1, column 5", "more than 100 levels"),
        (aliases(10, ", ".join(["*{}"] * 10)), ":1, column 10", "more than 50,000 values, aliases counted each time"),
        ("policies: {max_jump: -" + "9" * 5_000 + "}", ":1, column 22", "more than 500 digits"),
        ("gate: {expectations: [{expect_x: {min: " + "9" * 5_000 + "}}]}", ":1, column 40", "more than 500 digits"),
    ],
)
def test_a_file_that_is_no_config_is_named_with_its_place(tmp_path: Path, text: str, where: str, words: str) -> None:
    error = load_text(tmp_path, text)
    assert [mistake.place for mistake in error.mistakes] == [f"{tmp_path / 'tidemark.yml'}{where}"]
    assert words in str(error)


FROM_OUTSIDE = [
    ("TIDEMARK_KAFKA__TOPIC", "[a]", "Did you mean TIDEMARK_KAFKA__TOPICS?"),
    ("TIDEMARK_BOOTSTRAP_SERVERS", "b:1", "Did you mean TIDEMARK_KAFKA__BOOTSTRAP_SERVERS?"),
    ("TIDEMARK_FOO", "x", "Known are TIDEMARK_PIPELINE,"),
    ("TIDEMARK_KAFKA__TOPICS__0", "x", "Did you mean TIDEMARK_KAFKA__TOPICS?"),
    ("TIDEMARK_KAFKA__PROPERTIES__", "x", "unknown setting"),
    ("TIDEMARK_POLICIES", "[a", "not valid YAML"),
    ("TIDEMARK_POLICIES", "{late: accept, late: drop}", "the key occurs twice"),
    ("TIDEMARK_POLICIES", "[" * 1_500, "more than 100 levels"),
    ("TIDEMARK_POLICIES__MAX_JUMP", "9" * 5_000, "more than 500 digits"),
    ("TIDEMARK_PIPELINE", "", "Add at the top level: pipeline: incidents"),
    ("kafka.topic", "[a]", "Did you mean kafka.topics?"),
    ("", "x", "unknown setting"),
    ("policies.max_jump", "many", "For example max_jump"),
    ("policies.topics.incident", "{late: drop}", "Did you mean incidents?"),
    ("policies.topics.incidents.lat", "drop", "a mapping of keys and values"),
    ("policies.topics.", "{}", "unknown setting"),
    ("kafka.properties.auto.offset.reset", "latest", "starting_offsets"),
]


@pytest.mark.parametrize(("name", "value", "words"), FROM_OUTSIDE)
def test_a_wrong_variable_or_flag_is_named(tmp_path: Path, name: str, value: str, words: str) -> None:
    is_variable = name.startswith("TIDEMARK_")
    error = load_text(tmp_path, "\n".join(BASE.values()), **{"environ" if is_variable else "overrides": {name: value}})
    kind = "environment variable" if is_variable else "flag"
    assert [mistake.place for mistake in error.mistakes] == [f"{kind} {name}"]
    assert words in str(error)


# Spark lower-cases the names of Kafka's properties, so a check of the name alone would be stepped over.
SPELT_OTHERWISE = {name: value.strip("'") for name, value, _ in PROPERTIES if name not in ("a", "kafka.acks")}
SPELT_OTHERWISE |= dict.fromkeys(_OWNED, "x")


@pytest.mark.parametrize("spelt", [str, str.upper, str.title, str.capitalize, lambda name: name[:-1] + name[-1].upper()])
@pytest.mark.parametrize("name", SPELT_OTHERWISE)
def test_what_is_refused_is_refused_however_it_is_spelt(name: str, spelt: type[str]) -> None:
    with pytest.raises(ValidationError):
        Kafka(bootstrap_servers="b:1", topics=("t",), properties={spelt(name): SPELT_OTHERWISE[name]})


@pytest.mark.parametrize(
    "names",
    [
        *(["client.id "], [" client.id"], ["client\u2024id"], ["client.\u0131d"], ["client.id\n"], [""]),
        ["isolation.level", "ISOLATION.LEVEL"],
    ],
)
def test_a_name_is_plain_text_and_there_once_in_any_case(names: list[str]) -> None:
    values: dict[str, SecretStr | str] = dict(zip(names, ("read_committed", "read_uncommitted"), strict=False))
    with pytest.raises(ValidationError, match="no name of a property"):
        Kafka(bootstrap_servers="b:1", topics=("t",), properties=values)
