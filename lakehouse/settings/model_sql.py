"""Refuses SQL in a Gold model that does more than query tables. The text is checked before there is a session.

Spark SQL can call the JVM (`reflect`), run a program (`SELECT TRANSFORM ... USING`), substitute environment variables
(`${env:...}`), and read files by some functions. The text is tokenized as by Spark's lexer, and refused if they might differ.

>>> problem("SELECT topic, count(*) FROM gold_records GROUP BY topic -- reflect('java.lang.System', 'exit')")
>>> problem("SELECT `Reflect` /* */ ('java.lang.System', 'getenv', 'HOME')")
'a call of reflect'
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSED = frozenset(
    {
        *("reflect", "java_method", "try_reflect"),  # call the JVM
        *("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "from_xml", "to_xml", "schema_of_xml"),
        *(
            "read_files",
            "cloud_files",
            "list_files",
            "python_worker_logs",
            "table_changes_by_path",
        ),  # name a file, as those above
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
    | (?P<comment>/\*(?P<inside>.*?)\*/)
    | (?P<raw>(?<![\w])[rR](?:'[^']*'|"[^"]*"))
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<dollar>\$\w*\$)
    | (?P<word>\w+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str


def problem(query: str) -> str | None:
    """Return what a model's query contains that it may not, or None if there is nothing."""
    if _VARIABLE.search(query):
        return "a variable, ${...}, which is put into the text before it is read"
    before = _Token("other", "")
    for token in _tokens(query):
        if found := _forbidden(before, token):
            return found
        before = token
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


def _tokens(query: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(query):
        kind = match.lastgroup or "other"
        if match.group("comment"):
            if "/*" in match.group("inside"):  # whether Spark takes it for one comment or two depends on its parser
                yield _Token("nested", "")
        elif kind not in {"space", "line", "hint"}:
            yield _Token(kind, match.group(kind))


def _forbidden(before: _Token, token: _Token) -> str | None:
    """Return why the text cannot be tokenized reliably, or what it does beyond querying tables; None if neither."""
    if token.kind == "nested":
        return "a comment within a comment"
    if token.kind == "dollar":
        return "a text between dollars"
    if token.kind == "other" and token.text in "'\"`":
        return f"a {token.text} that nothing ends"
    name = before.text.strip("`'\"").lower()
    if token.text == "(" and before.kind in {"word", "quoted", "text"} and name in REFUSED:
        return f"a call of {name}"
    if before.kind == "word" and name == "using" and token.kind in {"text", "raw"}:
        return "a program, USING '...'"
    return None
