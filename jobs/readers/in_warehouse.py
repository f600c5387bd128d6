"""Tables of a Databricks catalog that are read through a SQL warehouse: no Spark session, no JVM.

The connector is the platform's (`databricks-sql-connector`), and so are the names of its settings in the environment.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from jobs.process import exit_codes
from jobs.process.context import reporting
from jobs.readers.answer import Arrived
from jobs.readers.spark_sql import statement, translated, wrong
from lakehouse.errors import TidemarkError, headline
from lakehouse.machine import platform
from lakehouse.settings.model_sql import beyond_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pyarrow as pa
    from databricks.sql.client import Cursor

    from lakehouse.table import Lakehouse

HOST, PATH, TOKEN = "DATABRICKS_SERVER_HOSTNAME", "DATABRICKS_HTTP_PATH", "DATABRICKS_TOKEN"
"""Where the warehouse is: the two of its connection details, and a token. Without one, the connector asks for a login."""
_MISTAKE = "SQLSTATE: 42"
"""The class of SQL's states for a query that is wrong: its syntax, a name, a right."""


def is_configured(lakehouse: Lakehouse) -> bool:
    """Whether a warehouse is asked: for a platform's catalog, if it is named, its connector is there, and no session is."""
    is_platforms = lakehouse.catalog is not None and lakehouse.metastore is None and not platform.brings_session()
    return is_platforms and all(os.environ.get(name) for name in (HOST, PATH)) and _has_connector()


def _has_connector() -> bool:
    try:
        return importlib.util.find_spec("databricks.sql") is not None
    except ModuleNotFoundError:  # nothing of the platform's
        return False


@dataclass(frozen=True)
class Session:
    """A warehouse in whose session the tables of a lakehouse have their bare names.

    Attributes:
        names: The tables, and the views beside them.
        cursor: Runs statements in that session.
    """

    names: Collection[str]
    cursor: Cursor

    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """See `jobs.readers.answer.Tables`."""
        text, name = translated(query, parameters or {})
        if name is not None:
            _run(self.cursor, f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {text}")
            return []
        rows: list[dict[str, Any]] = _run(self.cursor, text).to_pylist()
        return rows


@contextlib.contextmanager
def connect(lakehouse: Lakehouse) -> Iterator[Session]:
    """Open the tables of a lakehouse; the warehouse's session, and what queries made in it, ends with the block.

    Raises:
        TidemarkError: The warehouse does not answer, its catalog has no such schema, or one may not read it.
    """
    import databricks.sql

    host, _, port = os.environ[HOST].removeprefix("https://").rstrip("/").partition(":")
    token = os.environ.get(TOKEN)
    exit_codes.known_secrets.update({token} if token else ())
    with reporting() as report, _errors_named(f"{lakehouse.name} by the SQL warehouse {host}{os.environ[PATH]}"):
        report.event("warehouse.asked", host=host)  # one that had stopped takes its time to start
        opened = databricks.sql.connect(
            server_hostname=host,
            http_path=os.environ[PATH],
            access_token=token,
            enable_telemetry=False,
            **({"_port": int(port)} if port else {}),
        )
        with opened as connection, connection.cursor() as cursor:
            _run(cursor, "SET TIME ZONE 'UTC'")
            _run(cursor, f"SET CATALOG {_quoted(str(lakehouse.catalog))}")
            _run(cursor, f"USE SCHEMA {_quoted(str(lakehouse.schema))}")
            found = _run(cursor, "SHOW TABLES").to_pylist()
            yield Session([row["tableName"] for row in found if not row["isTemporary"]], cursor)


def _run(cursor: Cursor, text: str) -> pa.Table:
    cursor.execute(text)
    return cursor.fetchall_arrow()


def _quoted(name: str) -> str:
    """A name as SQL takes any.

    >>> _quoted("a`b")
    '`a``b`'
    """
    return f"`{name.replace('`', '``')}`"


@contextlib.contextmanager
def _errors_named(where: str) -> Iterator[None]:
    from databricks.sql.exc import Error

    try:
        yield
    except Error as error:
        raise TidemarkError(
            "The tables cannot be read.",
            where=where,
            observed=headline(str(error)),
            expected="a warehouse that runs, and a login that may read the tables",
            next_step=f"Look at {HOST}, {PATH} and {TOKEN}, and at the rights on the schema: see docs/catalogs.md.",
        ) from error


@contextlib.contextmanager
def run_query(lakehouse: Lakehouse, query: str) -> Iterator[Arrived]:
    """Run a user's query, by the same rules as in a Spark session.

    Raises:
        UsageError: The query is not SQL, does more than read, or names a table or column that does not exist.
        TidemarkError: The query failed while it ran.
    """
    from databricks.sql.exc import Error

    with connect(lakehouse) as session:

        def explain(text: str) -> str:
            return "\n".join(_run(session.cursor, text)[0].to_pylist())

        try:
            answer = Arrived(
                _run(session.cursor, statement(query, partial(beyond_tables, explain=explain, is_in_catalog=True)))
            )
        except Error as error:
            if _MISTAKE not in str(error):
                raise TidemarkError("The query failed.", where=f"query: {query}", observed=headline(str(error))) from error
            raise wrong(query, error, session.names) from error
        yield answer
