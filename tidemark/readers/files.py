"""Tables in files, in a folder or in an object store, read without Spark: DuckDB, a view per table.

DuckDB's Delta extension reads tables in a local folder. delta-rs and Arrow read those in an object store, with the credentials
of the config or the environment. DuckDB itself uses no network: it would ask the cloud's metadata address for credentials.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duckdb

from lakehouse.contracts import views
from lakehouse.errors import TidemarkError, ToolError, UsageError, headline
from tidemark.readers import sql_guard
from tidemark.readers.database import FETCHED_ROWS, QueryResult, Rows, Tables, named, not_there_yet, with_tables_of_views
from tidemark.readers.sql_guard import sql_text

if TYPE_CHECKING:
    from lakehouse.storage import Storage
    from lakehouse.table import Lakehouse, Table

    Add = Callable[[duckdb.DuckDBPyConnection, Table], None]

_CATALOG_WORDS = ("show", "describe", "information_schema", "duckdb_", "sqlite_master")
"""Words of queries that list the tables."""
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # A missing extension must be an error, not a download behind the user's back.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # Checking the Delta extension's signature takes half of a small query; pip has checked the file against the lock's hash.
    "allow_unsigned_extensions": True,
    "python_enable_replacements": False,  # an unknown table name is an error, not one of our variables
}
_COLUMNS_MAY_BE_RENAMED = 2
"""Delta's reader version of column mapping. From 3 on, the log lists features, which delta-rs checks."""
_BARE_OFFSET = re.compile(r'(?<!")\boffset\b(?!")', re.IGNORECASE)
_NO_TABLE_OF_OURS = re.compile(r'\nDid you mean "(?:pg_|duckdb_|sqlite_)\w*"\?')


class Database(Tables):
    """A DuckDB with the tables and views that queries have named so far: opening one costs a read of its log."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, lakehouse: Lakehouse, add: Add) -> None:
        self.connection = connection
        self.names: dict[str, Table] = tables(lakehouse)
        self._add = add
        if lakehouse.storage is not None:
            self._add = partial(_add_stored, storage=lakehouse.storage)
        self._opened: set[str] = set()

    def rows(self, query: str, parameters: dict[str, Any] | None = None) -> Rows:
        """See `Tables.rows`."""
        self.open(named(query))
        used = {name: value for name, value in (parameters or {}).items() if f"${name}" in query}
        result = self.connection.execute(query, used or None)
        columns = [column[0] for column in result.description or []]
        return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

    def open(self, names: Collection[str]) -> None:
        """Open the tables and views of these names that exist. A user's table goes before a view of its name."""
        wanted = with_tables_of_views(names) - self._opened
        for name in sorted(wanted & self.names.keys()):
            self._add(self.connection, self.names[name])
        for name, query in views.queries().items():
            if name in wanted - self.names.keys() and views.READ_BY[name] <= self.names.keys():
                self.connection.execute(f'CREATE VIEW "{name}" AS {query}')
        self._opened |= wanted


def tables(lakehouse: Lakehouse) -> dict[str, Table]:
    """Return the existing Delta tables by name, Gold models included; TidemarkError if the object store cannot be read."""
    files, is_local = lakehouse.table_files, lakehouse.local_root is not None
    with contextlib.nullcontext() if is_local else _store_errors_named(lakehouse.root or ""):
        return {name: lakehouse.table(name) for name in (files.tables() if files else None) or []}


@contextlib.contextmanager
def _store_errors_named(location: str) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (OSError, DeltaError) as error:
        raise TidemarkError(
            "The object store cannot be read.",
            where=location,
            observed=headline(str(error)),
            expected="a bucket or container that these credentials may list and read",
            next_step="Look at lakehouse.storage, and at the store's variables in this environment; see docs/object-stores.md.",
        ) from error


@contextlib.contextmanager
def connect(lakehouse: Lakehouse) -> Iterator[Database]:
    """See `tidemark.readers.database.connect`."""
    with _opened(lakehouse, _add_view) as database:
        yield database


@contextlib.contextmanager
def run_query(lakehouse: Lakehouse, query: str) -> Iterator[QueryResult]:
    """See `tidemark.readers.database.run_query`. The query can open no file: DuckDB gets rows, not the folder with them."""
    with _opened(lakehouse, _add_rows) as database:
        database.open(_named_by_user(query, database.names))
        try:
            sql_guard.fence(database.connection)
            sql_guard.require_select(database.connection, query)
            result = database.connection.execute(query)
            columns = [column[0] for column in result.description]
            batches = iter(partial(result.fetchmany, FETCHED_ROWS), [])
            yield QueryResult(columns, chain.from_iterable(batches), partial(result.to_arrow_reader, FETCHED_ROWS))
        except duckdb.PermissionException:
            raise sql_guard.no_select(query, "a file or an address that it opens") from None
        except duckdb.Error as error:
            raise _named_error(query, sorted(database.names), error) from error


@contextlib.contextmanager
def _opened(lakehouse: Lakehouse, add: Add) -> Iterator[Database]:
    # Spilled data holds records: it goes to a new folder private to this user, where no link can be waiting.
    folder = tempfile.TemporaryDirectory(prefix="tidemark-sql-", ignore_cleanup_errors=True)
    with folder as spilled, duckdb.connect(config={**_SETTINGS, "temp_directory": f"{spilled}/duckdb"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(views.IN_DUCKDB)
        connection.execute("SET enable_progress_bar = false")  # after two seconds it is written to stdout, into the answer
        yield Database(connection, lakehouse, add)


def _named_by_user(query: str, known: Collection[str]) -> Collection[str]:
    """Return the tables and views that a user's query names; all if it names none, or lists the tables."""
    text, every = query.casefold(), (*known, *views.READ_BY)
    if any(word in text for word in _CATALOG_WORDS):
        return every
    return [name for name in every if name.casefold() in text] or every


def _extension() -> Path:
    package = importlib.util.find_spec("duckdb_extension_delta")
    folders = package.submodule_search_locations if package else None
    files = [file for folder in folders or [] for file in Path(folder).glob("extensions/*/delta.duckdb_extension")]
    if not files:
        raise ToolError(
            "DuckDB's Delta extension is not installed.",
            where="Python package duckdb-extension-delta",
            expected=f"version {duckdb.__version__}, that of DuckDB",
            next_step=f"pip install duckdb-extension-delta=={duckdb.__version__}",
        )
    return files[0]


def _add_stored(database: duckdb.DuckDBPyConnection, table: Table, storage: Storage) -> None:
    from deltalake import DeltaTable

    with _store_errors_named(table.location):
        found = DeltaTable(table.location, storage_options=storage.for_delta_rs())
        database.from_arrow(found.to_pyarrow_dataset()).create_view(table.name)


def _add_rows(database: duckdb.DuckDBPyConnection, table: Table) -> None:
    """Add a table's rows under its name, read by Arrow: DuckDB passes columns and filters, and needs no file system."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    folder = table.local_folder or Path(table.location)
    with contextlib.suppress(DeltaError):
        found = DeltaTable(folder)
        if found.protocol().min_reader_version != _COLUMNS_MAY_BE_RENAMED:
            files = SubTreeFileSystem(str(folder.absolute()), LocalFileSystem())
            database.from_arrow(found.to_pyarrow_dataset(filesystem=files)).create_view(table.name)
            return
    _add_view(database, table, "TABLE")  # with deletion vectors of another writer, or renamed columns: copied


def _add_view(database: duckdb.DuckDBPyConnection, table: Table, kind: Literal["TABLE", "VIEW"] = "VIEW") -> None:
    folder, quoted = str(table.local_folder or table.location), table.name.replace('"', '""')
    try:
        database.execute(f"LOAD {sql_text(str(_extension()))}")
        rows = f"delta_scan({sql_text(folder)})"
        database.execute(f'CREATE {kind} "{quoted}" AS SELECT * FROM {rows}')  # noqa: S608 -- both are quoted; a view takes no parameter
    except duckdb.Error as error:
        raise TidemarkError(
            "A table cannot be read.",
            where=folder,
            observed=str(error),
            expected="a Delta table",
            next_step="If the folder was copied or restored in part, bring its _delta_log and data files together again.",
        ) from error


def _named_error(query: str, known: list[str], error: duckdb.Error) -> TidemarkError:
    """Return our error for one of DuckDB's, with DuckDB's text, which points at the place in the query."""
    if not isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
        return TidemarkError("The query failed.", where=f"query: {query}", observed=str(error))
    expected = f"one of {', '.join(known)}" if known else "no table is there yet"
    is_unknown_table = isinstance(error, duckdb.CatalogException)
    return UsageError(
        "The query cannot be answered.",
        where=f"query: {query}",
        observed=_NO_TABLE_OF_OURS.sub("", str(error)),
        expected=f"tables: {expected}" if is_unknown_table else None,
        next_step=_way_out(query, known, error),
    )


def _way_out(query: str, known: list[str], error: duckdb.Error) -> str | None:
    if isinstance(error, duckdb.ParserException) and _BARE_OFFSET.search(query):
        return 'offset is a word of SQL: the column is "offset", in double quotes.'
    if isinstance(error, duckdb.CatalogException):
        there = [*known, *(name for name, read in views.READ_BY.items() if read <= {*known})]
        return not_there_yet(query, there) or (None if known else "Run `tidemark run` first.")
    return None
