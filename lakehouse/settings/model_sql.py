"""Refuses SQL in a Gold model that does more than query tables, before there is a session.

Spark SQL can call the JVM (`reflect`), run a program (`SELECT TRANSFORM ... USING`), substitute environment variables
(`${env:...}`), and read files with some functions. A text that Spark's lexer might read in another way is refused too.

>>> problem("SELECT topic, count(*) FROM gold_records GROUP BY topic -- reflect('java.lang.System', 'exit')")
>>> problem("SELECT `Reflect` /* */ ('java.lang.System', 'getenv', 'HOME')")
'a call of reflect'
"""

import re

REFUSED = frozenset(
    {
        *("reflect", "java_method", "try_reflect"),  # call the JVM
        # Read files.
        *("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "from_xml", "to_xml", "schema_of_xml"),
        *("read_files", "cloud_files", "list_files", "python_worker_logs", "table_changes_by_path"),
        *("http_request", "remote_query", "read_kafka", "read_kinesis", "read_pubsub", "read_pulsar", "read_statestore"),
        *("secret", "try_secret", "ai_query", "get_secret"),  # of a platform
        "identifier",  # builds a name at run time
    }
)

_FORMATS = frozenset({"text", "csv", "json", "parquet", "orc", "avro", "xml", "delta", "binaryfile", "image", "libsvm", "jdbc"})
# A name may hold line ends. The lookahead does not consume the start of the next relation.
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
_UNRELIABLE = {"dollar": "a text between dollars", "open": "a {} without its end"}
"""Tokens after which Spark may read the text in another way."""


def problem(query: str) -> str | None:
    """Return the first thing in a model's query that is not allowed, or None if there is none."""
    if _VARIABLE.search(query):
        return "a variable, ${...}, which is replaced before the query is parsed"
    kind_before = before = ""
    for match in _TOKEN.finditer(query):
        kind, text = match.lastgroup or "", match[0]
        if kind == "comment" and "/*" in text[2:-2]:  # whether it nests depends on Spark's parser
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

    A one-part name is a view of Tidemark or a CTE; a multi-part name is a file, or a table of a catalog. Table functions may
    read anything (`table_changes`), so none is allowed; `LATERAL VIEW explode(...)` is not one.

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
