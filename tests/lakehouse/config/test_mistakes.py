"""Every mistake that a config can hold gets an error with its key, its place and a way out."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from lakehouse.config.load import ConfigMistakesError, load
from lakehouse.settings.kafka import _OWNED, Kafka

BASE = {
    "pipeline": "pipeline: incidents",
    "kafka": "kafka: {bootstrap_servers: 'localhost:9092', topics: [incidents]}",
    "lakehouse": "lakehouse: {root: ./lake}",
    "sequence": "sequence: {header: seq}",
}

# The same within the section `kafka`: what is written there after its servers, the key and the way out below `kafka`.
KAFKA = [
    ("topics: incidents", "topics", "For example topics: [incidents]"),
    ("topics: []", "topics", "For example topics: [incidents]"),
    ("topics: [a, a]", "topics", "Remove the second mention"),
    ("topics: ['inc.*']", "topics[0]", "exact name"),
    ("topics: [a, ..]", "topics[1]", "exact name"),
    ("topics: [a], starting_offsets: begin", "starting_offsets", "earliest, latest"),
    ("topics: [a], starting_offsets: {a: 5}", "starting_offsets", '{incidents: {"0"'),
    ("topics: [a], starting_offsets: {a: {0: -3}}", "starting_offsets", "-2 is its earliest"),
    ("topics: [a, b], starting_offsets: {a: {0: 3}}", "starting_offsets", "kafka.topics"),
    ("topics: [a], max_offsets_per_trigger: 0", "max_offsets_per_trigger", "1000000"),
    ("topics: [a], max_offsets_per_trigger: '5'", "max_offsets_per_trigger", "1000000"),
    ("topics: [a], properties: [a]", "properties", "security.protocol: SASL_SSL"),
]

# A client property, its value, and the way out.
PROPERTIES = [
    ("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd", "https://login.example.org"),
    ("sasl.oauthbearer.jwks.endpoint.url", "jar:http://a/b!/c", "https://login.example.org"),
    ("sasl.oauthbearer.token.endpoint.url", "'https:///etc/passwd'", "https://login.example.org"),
    ("sasl.oauthbearer.token.endpoint.url", "http://169.254.169.254/latest", "https://login.example.org"),
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
    ("sasl.login.class", "java.lang.Runtime", "the library's own class"),
    ("partition.assignment.strategy", "java.lang.Runtime", "the library's own class"),
    ("security.providers", "java.lang.Runtime", "the library's own class"),
    ("config.providers", "file", "${env:NAME}"),
    ("config.providers.file.class", "org.apache.kafka.common.config.provider.FileConfigProvider", "${env:NAME}"),
    ("bootstrap.servers", "x", "kafka.bootstrap_servers"),
    ("value.deserializer", "x", "Leave it out"),
    ("key.deserializer", "x", "Leave it out"),
    ("enable.auto.commit", "x", "with the tables"),
    ("auto.offset.reset", "x", "starting_offsets"),
    ("isolation.level", "read_uncommitted", "Remove the line"),
    ("kafka.acks", "x", "without the prefix: acks"),
    ("a", "{b: c}", "in quotes"),
]

# The same within other sections: what is written there, the key below the section, and the way out.
EXPECTATIONS = [
    ("expect_x", "", "an item of its own"),
    ("{expect_a: {}, expect_b: {}}", "", "an item of its own"),
    ("{ExpectColumn: {}}", ".ExpectColumn", "expect_column_values_to_be_between"),
    ("{expect_a: payload.id}", ".expect_a", "expect_a: {column: payload.id}"),
    ("{expect_a: {severity: fatal}}", ".expect_a.severity", "Leave it out for critical"),
]
MODELS = [
    ("{name: by day, sql: here.sql}", "0].name", "incidents_by_day"),
    ("{name: Gold_Latest, sql: here.sql}", "0].name", "another name"),
    ("{name: lag, sql: here.sql}", "0].name", "another name"),
    ("{name: a, sql: here.sql}, {name: A, sql: here.sql}", "1].name", "Rename one"),
    ("{name: a, sql: none.sql}", "0].sql", "Create the file"),
    ("{name: a}", "0].sql", "sql/incidents_by_day.sql"),
]
WATCH = [
    ("metrics_file: 's3://bucket/tidemark.prom'", "metrics_file", "/var/lib/node_exporter/incidents.prom"),
    ("metrics_port: 70000", "metrics_port", "For example metrics_port: 9464"),
    ("alerts: {webhook: {url: hooks.example.org}}", "alerts.webhook.url", "https://hooks.example.org"),
    ("alerts: {webhook: {url: 'https://[::1'}}", "alerts.webhook.url", "https://hooks.example.org"),
    ("alerts: {webhook: {url: 'https://a/', headers: {A b: c}}}", "alerts.webhook.headers.A b", "Authorization"),
    ("alerts: {webhook: {url: 'https://a/', headers: {A: \"b\\nc\"}}}", "alerts.webhook.headers.A", "Remove the line end"),
    ("alerts: {mail_command: []}", "alerts.mail_command", "[sendmail, ops@example.org]"),
    ("alerts: {mail_command: mail}", "alerts.mail_command", "a list"),
    ("alerts: {max_lag: 5}", "alerts.max_lag", "Name one of them"),
]
PROTOBUF = "value: {format: protobuf, schema: a INT, message: A, descriptor:"
REGISTRY = "value: {format: json, schema: a INT, registry: {url:"

# What is written at a section (it replaces the right one), the key that the error names, and words of its way out.
MISTAKES: list[tuple[str, str, str]] = [
    # The levels and their keys
    ("kafak: {}", "kafak", "Did you mean kafka?"),
    ("topics: [a]", "topics", "It belongs elsewhere: kafka.topics"),
    ("Kafka: {}", "Kafka", "Did you mean kafka?"),
    ("zzz: 1", "zzz", "one of pipeline, kafka, lakehouse"),
    ("kafka: {bootstrap_servers: 'b:1', topics: [a], topcs: [b]}", "kafka.topcs", "Did you mean topics?"),
    ("kafka: {topics: [a]}", "kafka.bootstrap_servers", "Add under kafka: bootstrap_servers: localhost:9092"),
    ("kafka: {bootstrap_servers: 'b:1'}", "kafka.topics", "Add under kafka: topics: [incidents]"),
    ("kafka:", "kafka", "Add at the top level: kafka:"),
    ("kafka: [a]", "kafka", "a mapping of keys and values"),
    ("pipeline: a\npipeline: b", "pipeline", "Remove one of the two"),
    # Pipeline
    ("pipeline: my pipeline", "pipeline", "For example pipeline: incidents"),
    ("pipeline: ''", "pipeline", "For example pipeline: incidents"),
    ("pipeline: [a]", "pipeline", "For example pipeline: incidents"),
    # Kafka
    ("kafka: {bootstrap_servers: localhost, topics: [a]}", "kafka.bootstrap_servers", "broker-1:9092"),
    ("kafka: {bootstrap_servers: 'a:99999', topics: [a]}", "kafka.bootstrap_servers", "host:port"),
    ("kafka: {bootstrap_servers: ['a:1'], topics: [a]}", "kafka.bootstrap_servers", "localhost:9092"),
    *((f"kafka: {{bootstrap_servers: 'b:1', {given}}}", f"kafka.{key}", way) for given, key, way in KAFKA),
    *(
        (f"kafka: {{bootstrap_servers: 'b:1', topics: [a], properties: {{{name}: {value}}}}}", f"kafka.properties.{name}", way)
        for name, value, way in PROPERTIES
    ),
    # Lakehouse
    ("lakehouse: {}", "lakehouse", "{root: ./lakehouse}"),
    ("lakehouse: {root: ./a, catalog: main, schema: s}", "lakehouse", "either root, or catalog and schema"),
    ("lakehouse: {catalog: main}", "lakehouse", "{catalog: main, schema: tidemark}"),
    ("lakehouse: {catalog: 'ma in', schema: s}", "lakehouse.catalog", "For example catalog: main"),
    ("lakehouse: {root: ./a, volume: /v}", "lakehouse.volume", "Remove volume"),
    ("lakehouse: {catalog: m, schema: s, volume: v}", "lakehouse.volume", "/Volumes/main/tidemark/tidemark"),
    # Extractors
    ("sequence: {key: utf8}", "sequence.key", "Put the sequence into a header"),
    ("sequence: key", "sequence", "Put the sequence into a header"),
    ("sequence: seq", "sequence", "For example sequence: {header: seq}"),
    ("sequence: {}", "sequence", "exactly one of header, value, json, field, bytes, offset, custom"),
    ("sequence: {header: a, json: $.b}", "sequence", "Keep one"),
    ("sequence: {headr: a}", "sequence.headr", "Did you mean header?"),
    ("sequence: {value: int16}", "sequence.value", "For example value: utf8"),
    ("sequence: {json: seq}", "sequence.json", "$.meta.seq"),
    ("sequence: {json: $.a..b}", "sequence.json", "$.meta.seq"),
    ("sequence: {bytes: '8:0'}", "sequence.bytes", 'bytes: "0:8"'),
    ("sequence: {bytes: 8}", "sequence.bytes", 'bytes: "0:8"'),
    ("sequence: {bytes: '0:6', encoding: int64}", "sequence.encoding", '"0:8"'),
    ("sequence: {bytes: '0:8', encoding: int32}", "sequence.encoding", '"0:4"'),
    ("sequence: {json: $.a, encoding: utf8}", "sequence.encoding", "only beside header or bytes"),
    ("sequence: {value: utf8, encoding: utf8}", "sequence.encoding", "{value: int64}"),
    ("sequence: {offset: false}", "sequence.offset", "For example offset: true"),
    ("sequence: {custom: mypackage.fn}", "sequence.custom", "mypackage.sequences:from_payload"),
    ("producer: {offset: true}", "producer.offset", "offset works as sequence only"),
    ("epoch: {offset: true}", "epoch.offset", "offset works as sequence only"),
    # Value
    ("value: {format: json}", "value.schema", "id STRING, amount DOUBLE"),
    ("value: {format: text, schema: a INT}", "value.schema", "{format: text}"),
    ("value: {format: xml}", "value.format", "For example format: json"),
    ("value: {format: protobuf}", "value.schema", "a schema for json, avro and protobuf"),
    ("value: {format: protobuf, schema: a INT}", "value", "descriptor and message or registry for protobuf"),
    ("value: {format: protobuf, schema: a INT, message: A}", "value", "or descriptor and message, where none does"),
    (f"{PROTOBUF} none.desc}}", "value.descriptor", "like incident.desc"),
    (f"{PROTOBUF} 'base64:AA'}}", "value.descriptor", "protoc --include_imports"),
    (f"{PROTOBUF} 'base64:CgsKAWEiBQoBQhIA'}}", "value.descriptor", "protoc --include_imports"),
    (f"{PROTOBUF} 'base64:CggKAWEiAwoBQg=='}}", "value.message", "docs/formats.md"),
    ("value: {format: json, schema: a INT, message: A}", "value", "nothing for json"),
    ("value: {format: avro}", "value.schema", "a schema for json, avro and protobuf"),
    ("value: {format: avro, schema: a INT}", "value", "avro_schema or registry for avro"),
    ("value: {format: avro, schema: '`a-b` INT'}", "value.schema", "Write the fields as the values' own schema names them"),
    ("value: {format: avro, schema: a INT, avro_schema: none.avsc}", "value.avro_schema", "like incident.avsc"),
    ("value: {format: avro, schema: a INT, avro_schema: '\"long\"'}", "value.avro_schema", "like incident.avsc"),
    ("value: {format: avro, schema: a INT, avro_schema: '[]'}", "value.avro_schema", "Correct one of the two"),
    ("value: {format: text, registry: {url: 'http://r:8081'}}", "value", "nothing for text"),
    (f"{REGISTRY} 'file:///x'}}}}", "value.registry.url", "https://registry.example.org"),
    (f"{REGISTRY} 'http://a:b@r'}}}}", "value.registry.url", "password: ${env:"),
    (f"{REGISTRY} 'http://r', password: x}}}}", "value.registry.password", "Add username"),
    ("sequence: {field: a..b}", "sequence.field", "Write it like seq or meta.seq"),
    ("value: {format: json, schema: just_a_name}", "value.schema", "id STRING"),
    ("value: {format: json, schema: 'a ARRAY<INT'}", "value.schema", "id STRING"),
    ("value: {format: json, schema: 'a INT,, b INT'}", "value.schema", "id STRING"),
    # Policies
    ("policies: {late: ignore}", "policies.late", "For example late: quarantine"),
    ("maintenance: {retain_hours: 24}", "maintenance.retain_hours", "allow_short_retention: true"),
    ("maintenance: {log_retain_days: 3}", "maintenance.log_retain_days", "Raise log_retain_days"),
    ("policies: {max_jump: 0}", "policies.max_jump", "For example max_jump"),
    ("policies: {max_jump: 1.5}", "policies.max_jump", "For example max_jump"),
    ("policies: {max_jump: true}", "policies.max_jump", "For example max_jump"),
    ("policies: {max_quarantined_share: 50}", "policies.max_quarantined_share", "0 to 1"),
    ("policies: {topics: {incident: {late: drop}}}", "policies.topics.incident", "Did you mean incidents?"),
    ("policies: {topics: {orders.v1: {}}}", "policies.topics.orders.v1", "Add it to kafka.topics"),
    ("policies: {topics: {incidents: {max_jmp: 5}}}", "policies.topics.incidents.max_jmp", "Did you mean max_jump?"),
    ("policies: {topics: {incidents: {late: ignore}}}", "policies.topics.incidents.late", "For example late: quarantine"),
    ("policies: {topics: {incidents: {max_jump: 0}}}", "policies.topics.incidents.max_jump", "For example max_jump"),
    ("policies: {topics: {incidents: accept}}", "policies.topics.incidents", "a mapping of keys and values"),
    ("policies: {topics: [incidents]}", "policies.topics", "For example topics: {incidents: {late: accept}}"),
    # Gate
    ("gate: {budgets: {duplicates: {warn: 1}}}", "gate.budgets.duplicates", "Did you mean duplicate?"),
    ("gate: {budgets: {missing_share: {warn: 1}}}", "gate.budgets.missing_share", "Did you mean"),
    ("gate: {budgets: {late: 5}}", "gate.budgets.late", "a mapping of keys and values"),
    ("gate: {budgets: {late: {}}}", "gate.budgets.late", "{warn: 0}"),
    ("gate: {budgets: {late: {warn: -1}}}", "gate.budgets.late.warn", "For example warn: 0"),
    ("gate: {budgets: {late: {warn: 5, critical: 1}}}", "gate.budgets.late.critical", "Swap the two"),
    ("gate: {budgets: {late_share: {warn: 20}}}", "gate.budgets.late_share.warn", "Write 20 % as 0.2"),
    ("gate: {budgets: {late: {warn: 0.2}}}", "gate.budgets.late.warn", "use late_share"),
    ("gate: {budgets: {late: {error: 1}}}", "gate.budgets.late.error", "one of warn, critical"),
    *(
        (f"gold: {{models: [{{name: {name}, sql: tidemark.yml}}]}}", "gold.models[0].name", "For example incidents_by_day")
        for name in ("_checkpoints", "_shadow", "_reports", "_watch", "_data_docs")
    ),
    *((f"gate: {{expectations: [{given}]}}", f"gate.expectations[0]{key}", way) for given, key, way in EXPECTATIONS),
    ("policies: {contiguous: yes}", "policies.contiguous", "For example contiguous: true"),
    ("policies: {max_quarantined_share: 20%}", "policies.max_quarantined_share", "a share is a number from 0 to 1"),
    ("gate: {budgets: {late: 0}}", "gate.budgets.late", "For example late: {warn: 0}"),
    ("gate: {data_docs: yes}", "gate.data_docs", "For example data_docs: true"),
    # Gold
    *((f"gold: {{models: [{given}]}}", f"gold.models[{key}", way) for given, key, way in MODELS),
    # Watch
    *((f"watch: {{{given}}}", f"watch.{key}", way) for given, key, way in WATCH),
    ("lakehouse: {root: 'abfss://c@a/l'}\nwatch: {metrics_port: 9464}", "watch", "{state_file: "),
    # References
    ("pipeline: ${env:NOT_SET}", "pipeline", "export NOT_SET=..."),
    ("pipeline: ${evn:X}", "pipeline", "${env:NAME} or ${secret:scope/key}"),
    ("pipeline: ${env:X", "pipeline", "${env:NAME} or ${secret:scope/key}"),
    ("policies: {max_jump: '${env:SET}'}", "policies.max_jump", "TIDEMARK_ variable"),
]


def load_text(folder: Path, text: str, **outside: dict[str, str]) -> ConfigMistakesError:
    file = folder / "tidemark.yml"
    file.write_text(text, encoding="utf-8")
    (folder / "here.sql").write_text("SELECT 1")
    with pytest.raises(ConfigMistakesError) as raised:
        load(file, environ=outside.get("environ", {}), overrides=outside.get("overrides"))
    return raised.value


@pytest.mark.parametrize(("written", "key", "way_out"), MISTAKES)
def test_a_mistake_is_named_with_key_line_and_way_out(tmp_path: Path, written: str, key: str, way_out: str) -> None:
    sections = {**BASE, written.split(":", maxsplit=1)[0]: written}
    error = load_text(tmp_path, "\n".join(sections.values()), environ={"SET": "5"})
    found = [mistake for mistake in error.mistakes if mistake.key == key]
    assert len(found) == 1, str(error)
    assert way_out in str(found[0])
    assert len(error.mistakes) == 1, str(error)
    line = list(sections).index(written.split(":", maxsplit=1)[0]) + 1 + written.count("\n")
    assert found[0].place == f"{tmp_path / 'tidemark.yml'}:{line}"
    assert str(found[0]) in str(error)


@pytest.mark.parametrize("section", BASE)
def test_a_required_section_that_is_left_out_is_named_with_an_example(tmp_path: Path, section: str) -> None:
    error = load_text(tmp_path, "\n".join(text for name, text in BASE.items() if name != section))
    assert [mistake.key for mistake in error.mistakes] == [section]
    assert f"Add at the top level: {section}: " in error.mistakes[0].next_step


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("", "", "the file holds no settings"),
        ("# only a comment\n", "", "the file holds no settings"),
        ("- a\n- b\n", "", "observed: a list"),
        ("pipeline: a\n---\npipeline: b\n", ":2, column 1", "a second document begins there"),
        ("just text\n", "", "observed: a single value"),
        ("pipeline: a\nkafka: {topics: [a\n", ":3, column 1", "not valid YAML"),
        ("pipeline: a\nkafka:\n\ttopics: [a]\n", ":3, column 1", "Replace the tab by spaces"),
        ("pipeline: a\n b: c\n", ":2, column 3", "not valid YAML"),
        ("pipeline: *name\n", ":1, column 11", "in quotes"),
        ("pipeline: !!python/name:os.system x\n", ":1, column 11", "not valid YAML"),
        ("a: &a [*a]\n", ":1, column 4", "an alias that contains itself"),
        ("? [a]\n: b\n", ":1, column 3", "a key that is no plain name"),
        ("a: 1\n---\nb: 2\n", ":2, column 1", "not valid YAML"),
        ("pipeline: a\x07b\n", "", "not valid YAML"),
        ("pipeline: " + "[" * 1_500 + "]" * 1_500, ":1, column 111", "more than 100 levels"),
        ("pipeline: " + "[" * 1_500, ":1, column 111", "more than 100 levels"),
        ("{a: " * 1_500, ":1, column 402", "more than 100 levels"),
        (
            "a: &a0 [a]\n" + "".join(f"a{n}: &a{n} [[*a{n - 1}]]\n" for n in range(1, 600)),
            ":1, column 4",
            "more than 100 levels",
        ),
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
    ("TIDEMARK_", "x", "unknown setting"),
    ("TIDEMARK_KAFKA__", "x", "unknown setting"),
    ("TIDEMARK_KAFKA__TOPICS__0", "x", "Did you mean TIDEMARK_KAFKA__TOPICS?"),
    ("TIDEMARK_KAFKA__PROPERTIES__", "x", "unknown setting"),
    ("TIDEMARK_POLICIES", "[a", "not valid YAML"),
    ("TIDEMARK_POLICIES", "{late: accept, late: drop}", "the key is there twice"),
    ("TIDEMARK_POLICIES", "[" * 1_500, "more than 100 levels"),
    ("TIDEMARK_POLICIES__MAX_JUMP", "9" * 5_000, "more than 500 digits"),
    ("TIDEMARK_POLICIES__LATE", "ignore", "For example late: quarantine"),
    ("TIDEMARK_POLICIES__TOPICS__INCIDENT__LATE", "drop", "Did you mean incidents?"),
    ("TIDEMARK_PIPELINE", "", "Add at the top level: pipeline: incidents"),
    ("kafka.topic", "[a]", "Did you mean kafka.topics?"),
    ("", "x", "unknown setting"),
    ("kafka.topics", "[", "not valid YAML"),
    ("policies.max_jump", "many", "For example max_jump"),
    ("policies.max_jump", "9" * 5_000, "more than 500 digits"),
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
SPELT_OTHERWISE = {name: value.strip("'") for name, value, _ in PROPERTIES if name not in ("a", "kafka.acks")} | dict.fromkeys(
    _OWNED, "x"
)


@pytest.mark.parametrize("spelt", [str, str.upper, str.title, str.capitalize, lambda name: name[:-1] + name[-1].upper()])
@pytest.mark.parametrize("name", SPELT_OTHERWISE)
def test_what_is_refused_is_refused_however_it_is_spelt(name: str, spelt: type[str]) -> None:
    with pytest.raises(ValidationError):
        Kafka(bootstrap_servers="b:1", topics=("t",), properties={spelt(name): SPELT_OTHERWISE[name]})


@pytest.mark.parametrize("name", ["client.id ", " client.id", "client\u2024id", "client.\u0131d", "client.id\n", ""])
def test_a_name_is_plain_text(name: str) -> None:
    with pytest.raises(ValidationError, match="no name of a property"):
        Kafka(bootstrap_servers="b:1", topics=("t",), properties={name: "x"})


def test_the_same_property_twice_in_two_cases_is_refused() -> None:
    both: dict[str, SecretStr | str] = {"isolation.level": "read_committed", "ISOLATION.LEVEL": "read_uncommitted"}
    with pytest.raises(ValidationError, match="no name of a property"):
        Kafka(bootstrap_servers="b:1", topics=("t",), properties=both)
