"""What the text of a Gold model may not say, however it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobs.cli import main
from lakehouse.settings.model_sql import problem
from tests.support.small_config import write_config

if TYPE_CHECKING:
    from pathlib import Path

FORBIDDEN = [
    ("SELECT reflect('java.lang.System', 'getenv', 'HOME')", "reflect"),
    ("SELECT REFLECT ('a', 'b')", "reflect"),
    ("SELECT /*+ BROADCAST(a) */ java_method('a', 'b')", "java_method"),
    ("SELECT try_reflect -- why\n ('a', 'b')", "try_reflect"),
    ("SELECT try_reflect/* why */('a', 'b')", "try_reflect"),
    ("SELECT `reflect`('a', 'b')", "reflect"),
    ("SELECT \"reflect\"('a', 'b')", "reflect"),
    ("SELECT system.builtin.reflect('a', 'b')", "reflect"),
    ("SELECT `system`.`builtin`.`Reflect` ('a', 'b')", "reflect"),
    ("SELECT transform(array('a'), x -> reflect(x, 'b'))", "reflect"),
    ("SELECT 1 WHERE EXISTS (SELECT reflect('a', 'b'))", "reflect"),
    ("SELECT identifier('ref' || 'lect')('a', 'b')", "identifier"),
    ("SELECT * FROM identifier('text.`/etc/hostname`')", "identifier"),
    ("SELECT '${env:HOME}'", "variable"),
    ("SELECT '$ {env:HOME}'", "variable"),
    ("SELECT 1 -- ${system:user.home}", "variable"),
    ("SELECT TRANSFORM(topic) USING 'cat' AS (a STRING) FROM gold_records", "program"),
    ("SELECT TRANSFORM(topic) using r'cat' FROM gold_records", "program"),
    ("MAP topic USING \"sh -c 'id'\" FROM gold_records", "program"),
    ("SELECT from_avro(value, '{}', map('avroSchemaUrl', 'file:///etc/passwd')) FROM gold_records", "from_avro"),
    ("SELECT from_protobuf(value, 'A', '/etc/passwd') FROM gold_records", "from_protobuf"),
    ("SELECT from_xml('', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))", "from_xml"),
    ("SELECT * FROM read_files('/etc')", "read_files"),
    ("SELECT secret('scope', 'key')", "secret"),
    # what would hide the rest from a reader that takes the text apart otherwise than Spark does
    ("SELECT 1 -- \\\n'\n, reflect('a', 'b') -- '", "reflect"),
    ("SELECT 'a\\'', reflect('a', 'b'), '\\''", "reflect"),
    ("SELECT r'\\', reflect('a', 'b'), r'\\'", "reflect"),
    ("SELECT 'it''s', reflect('a', 'b')", "reflect"),
    ("SELECT 1 /* /* */ , reflect('a', 'b') /* */ */", "a comment within a comment"),
    ("SELECT $$ ' $$, reflect('a', 'b')", "dollars"),
    ("SELECT 'open, reflect('a', 'b')", "nothing ends"),
    ("SELECT 1, ` FROM a", "nothing ends"),
    ("SELECT 1 -- a\r, reflect('a', 'b')", "reflect"),
]

ALLOWED = [
    "SELECT topic, count(*) AS records FROM gold_records GROUP BY topic",
    "SELECT 'reflect(1)', `reflect` FROM gold_records -- reflect('a')",
    "SELECT reflect FROM (SELECT 1 AS reflect)",
    "SELECT /* reflect('a') */ transform(array(1), x -> x + 1), \"reflect('a')\"",
    "SELECT a.topic FROM gold_records AS a JOIN gold_latest AS b USING (topic, key)",
    "SELECT year(timestamp), extract(YEAR FROM timestamp), trim(BOTH ' ' FROM topic) FROM gold_records",
    "WITH a AS (SELECT 1 AS n) SELECT * FROM a, gold_latest WHERE value RLIKE '\\\\$[0-9]+'",
    "SELECT get_json_object(CAST(value AS STRING), '$.id'), 'costs $5', payload.a['x'] FROM gold_records;",
    "SELECT 'Köln', `Größe` FROM gold_records",
]


@pytest.mark.parametrize(("query", "said"), FORBIDDEN)
def test_what_leaves_sql_over_tables_is_named(query: str, said: str) -> None:
    assert said in str(problem(query))


@pytest.mark.parametrize("query", ALLOWED)
def test_queries_over_gold_are_taken(query: str) -> None:
    assert problem(query) is None


@pytest.mark.parametrize(
    ("command", "query", "said"),
    [
        ("config check", b"SELECT reflect('java.lang.System', 'getenv', 'HOME')", "the query holds a call of reflect"),
        ("run", b"SELECT reflect('java.lang.System', 'getenv', 'HOME')", "the query holds a call of reflect"),
        ("config check", b"\xff\xfe", "this file cannot be read"),
    ],
)
def test_such_a_model_ends_every_command_before_it_starts_anything(
    command: str, query: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys.sql").write_bytes(query)
    config = write_config(tmp_path, root=str(tmp_path / "lakehouse"), gold={"models": [{"name": "keys", "sql": "keys.sql"}]})
    assert main([*command.split(), "--config", str(config)]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "lakehouse").exists()
