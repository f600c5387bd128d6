"""Refuses SQL in a Gold model that does more than query tables. The text is checked before there is a session.

Spark SQL can call the JVM (`reflect`), run a program (`SELECT TRANSFORM ... USING`), substitute environment variables
(`${env:...}`), and read files by some functions. The text is tokenized as by Spark's lexer, and refused if they might differ.

>>> problem("SELECT topic, count(*) FROM gold_records GROUP BY topic -- reflect('java.lang.System', 'exit')")
>>> problem("SELECT `Reflect` /* */ ('java.lang.System', 'getenv', 'HOME')")
'a call of reflect'
"""

from __future__ import annotations

import re

REFUSED = frozenset(
    {
        *("reflect", "java_method", "try_reflect"),  # call the JVM
        # Name a file.
        *("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "from_xml", "to_xml", "schema_of_xml"),
        *("read_files", "cloud_files", "list_files", "python_worker_logs", "table_changes_by_path"),
        *("http_request", "remote_query", "read_kafka", "read_kinesis", "read_pubsub", "read_pulsar", "read_statestore"),
        *("secret", "try_secret", "ai_query", "get_secret"),  # of a platform
        "identifier",  # says what it means only when it runs
    }
)
"""Functions, of Spark or of a platform, that a model may not call."""

_FORMATS = frozenset({"text", "csv", "json", "parquet", "orc", "avro", "xml", "delta", "binaryfile", "image", "libsvm", "jdbc"})
# A name may hold line ends. A lookahead, so that no match takes in the start of the next relation.
_RELATION = re.compile(r"(?=UnresolvedRelation \[(.*?)\](?:, \[|$))", re.MULTILINE | re.DOTALL)
_TABLE_FUNCTION = re.compile(r"UnresolvedTableValuedFunction \[(.*?)\], ", re.DOTALL)
_VARIABLE = re.compile(r"\$\s*\{")
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
    | (?P<line>--(?:\\\n|[^\r\n])*)
    | (?P<hint>/\*\+|\*/)
    | (?P<comment>/\*.*?\*/)
    | (?P<raw>(?<![\w])[rR](?:'[^']*'|"[^"]*"))
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<dollar>\$\w*\$)
    | (?P<word>\w+)
    | (?P<open>['"`])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_UNRELIABLE = {"dollar": "a text between dollars", "open": "a {} that nothing ends"}
"""Tokens after which Spark may read the text otherwise."""


def problem(query: str) -> str | None:
    """Return what a model's query contains that it may not, or None if there is nothing."""
    if _VARIABLE.search(query):
        return "a variable, ${...}, which is put into the text before it is read"
    kind_before = before = ""
    for match in _TOKEN.finditer(query):
        kind, text = match.lastgroup or "", match[0]
        if kind == "comment" and "/*" in text[2:-2]:  # whether Spark takes it for one comment or two depends on its parser
            return "a comment within a comment"
        if kind in {"space", "line", "hint", "comment"}:
            continue
        if kind in _UNRELIABLE:
            return _UNRELIABLE[kind].format(text)
        if text == "(" and kind_before in {"word", "quoted", "text"} and before in REFUSED:
            return f"a call of {before}"
        if (kind_before, before) == ("word", "using") and kind in {"text", "raw"}:
            return "a program, USING '...'"
        kind_before, before = kind, text.strip("`'\"").lower()
    return None


def as_query(text: str) -> str:
    r"""Wrap a text so that it can only be a query: in brackets, a statement that writes is a syntax error.

    >>> print(as_query("SELECT 1 -- one\n;\n"))
    SELECT * FROM (
    SELECT 1 -- one
    )
    """
    return f"SELECT * FROM (\n{text.strip().rstrip(';').rstrip()}\n)"  # noqa: S608 -- the operator's own text


def foreign_relations(parsed_plan: str, *, is_in_catalog: bool) -> list[str]:
    r"""Return the relations in a parsed plan, as printed by Spark's EXPLAIN EXTENDED, that a model may not read.

    A one-part name is a view of ours or a CTE; a multi-part name is a file, or a table of a catalog. A table function may read
    anything (`table_changes`), so none may be called; `LATERAL VIEW explode(...)` is not one.

    >>> foreign_relations("'UnresolvedTableValuedFunction [range], [3], false", is_in_catalog=True)
    ['range(...)']
    >>> foreign_relations("'Project [*]\n+- 'UnresolvedRelation [text, /etc/hostname], [], false", is_in_catalog=True)
    ['text./etc/hostname']
    >>> foreign_relations("'UnresolvedRelation [main, ref, days], [], false", is_in_catalog=True)
    []
    """
    found = [f"{named.replace(', ', '.')}(...)" for named in _TABLE_FUNCTION.findall(parsed_plan)]
    for named in _RELATION.findall(parsed_plan):
        parts = named.split(", ")
        is_file = any(mark in named for mark in "/:\\") or parts[0].lower() in _FORMATS or "." in parts[0]
        if len(parts) > 1 and (is_file or not is_in_catalog):
            found.append(".".join(parts))
    return found
