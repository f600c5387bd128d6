"""What the text of a Gold model may not say, however it is written."""

import pytest

from lakehouse.settings.model_sql import problem

FORBIDDEN = [
    ("SELECT reflect('java.lang.System', 'getenv', 'HOME')", "reflect"),
    ("SELECT /*+ BROADCAST(a) */ java_method('a', 'b')", "java_method"),
    ("SELECT try_reflect -- why\n ('a', 'b')", "try_reflect"),
    ("SELECT \"reflect\"('a', 'b')", "reflect"),
    ("SELECT system.builtin.reflect('a', 'b')", "reflect"),
    ("SELECT `system`.`builtin`.`Reflect` ('a', 'b')", "reflect"),
    ("SELECT transform(array('a'), x -> reflect(x, 'b'))", "reflect"),
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
    ("SELECT 'open, reflect('a', 'b')", "without its end"),
    ("SELECT 1, ` FROM a", "without its end"),
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


@pytest.mark.parametrize(("query", "said"), [*FORBIDDEN, *((query, None) for query in ALLOWED)])
def test_what_leaves_sql_over_tables_is_named_and_queries_over_gold_are_taken(query: str, said: str | None) -> None:
    assert problem(query) is None if said is None else said in str(problem(query))
