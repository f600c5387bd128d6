"""Read a Delta table's log without Spark: versions, files and properties, and files that are missing or truncated.

Delta reads some damage without an error. An empty last log file is an empty commit; without its last log file a table is at
the previous version. If a function returns None, the caller uses Spark, which reports the error.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lakehouse.errors import headline
from lakehouse.run.findings import Violation

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.sidecar_files import Files
    from lakehouse.table import Table

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_OTHER_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)")
_TRACE = re.compile(r"\.?(\d{20})(?:\.crc|\.json\.crc|\.checkpoint\..*)")
"""The files that Delta and Hadoop write next to a commit's own file."""
_OF_VERSION = re.compile(r"\.?(\d{20})\..+")
ERRORS = (DeltaError, pa.ArrowException, OSError, KeyError)
"""The errors of a table in a local folder that does not exist or cannot be read here."""
_FEATURES = {"2", "appendOnly", "invariants", "changeDataFeed", "domainMetadata", "clustering"}  # 2: all features of version 2

Action = dict[str, Any]


def opened(folder: Path, version: int | None = None) -> DeltaTable:
    """Open a table whose files hold exactly its rows: no deletion vectors, no renamed columns; or raise a `DeltaError`."""
    table = DeltaTable(folder, version=version)
    if table.protocol().min_reader_version > 1:
        raise DeltaError("Its files alone do not say what its rows are.")
    return table


def statistics(table: DeltaTable, *names: str) -> pa.Table:
    """Return these statistics of each file; null for statistics that the log lacks."""
    found = pa.table(table.get_add_actions(flatten=True))
    nothing = pa.nulls(found.num_rows)
    return pa.table({name: found[name] if name in found.column_names else nothing for name in names})


def local(table: Table) -> DeltaTable | None:
    """Open a table in a local folder. None for a table elsewhere, and for one that cannot be read here."""
    with suppress(*ERRORS):
        return None if table.local_folder is None else DeltaTable(table.local_folder)
    return None


def has_own_features(table: DeltaTable) -> bool:
    """Whether the table needs only the Delta features of Tidemark's tables, and has the change feed's if that is on."""
    needed, has_feed = table.protocol(), table.metadata().configuration.get("delta.enableChangeDataFeed") == "true"
    features = {*(needed.writer_features or [str(needed.min_writer_version)])}
    return needed.min_reader_version == 1 and features <= _FEATURES and has_feed <= ("changeDataFeed" in features)


@dataclass
class Log:
    """A table's state from its log, and the size in bytes of all its files. The version is -1 without a commit.

    `files` has the bytes of each live data file; None if the log is damaged.
    """

    version: int = -1
    files: dict[str, int] | None = None
    violations: list[Violation] = field(default_factory=list)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The files of the log itself."""
        return sorted(name.removeprefix("_delta_log/") for name in self.sizes if name.startswith("_delta_log/"))


def read_log(table: Files) -> Log:
    """Read a table's log from its last checkpoint on, and record log files that are missing or unreadable."""
    log, folder = Log(sizes=table.sizes()), table.below("_delta_log")
    names = log.names
    commits = {int(match[1]): name for name in names if (match := _COMMIT.fullmatch(name))}
    others = (int(match[1]) for name in names if (match := _OTHER_CHECKPOINT.fullmatch(name)))
    start = max([_last_checkpoint(names), *others])
    log.version = max([start, *commits])
    if log.version < 0:
        log.violations.append(Violation(folder.place, "no commit", "a Delta log"))
        return log
    damaged = (_damage(folder, version, commits.get(version)) for version in range(start + 1, log.version + 1))
    log.violations += [*filter(None, damaged), *_lost(folder, names, log.version)]
    if not log.violations:
        try:
            live = statistics(opened_from(table, log.version), "path", "size_bytes")
        except ERRORS as error:
            observed = f"cannot be read: {headline(str(error))}"
            read = f"version {log.version}" + (f", from the checkpoint of version {start} on" if start >= 0 else "")
            log.violations.append(Violation(folder.place, observed, read))
        else:
            log.files = dict(zip(live["path"].to_pylist(), live["size_bytes"].to_pylist(), strict=True))
    return log


def opened_from(table: Files, version: int | None = None) -> DeltaTable:
    """Open a table in a folder or a store; raise a `DeltaError` if it cannot be read."""
    options = table.storage.for_delta_rs() if table.storage else None
    return DeltaTable(table.place, version=version, storage_options=options)


@dataclass(frozen=True)
class Append:
    """An append that is a table's last commit: its rows, from the files' statistics, and the text stored with it."""

    rows: int
    metadata: str | None


def last_append(table: Path | None, app_id: str, number: int) -> Append | None:
    """Return a local table's last commit if it is this transaction's append, has row counts, and all its files exist."""
    if table is None:
        return None
    try:
        actions = list(_actions(table, last_version(table)))
        info: Action = next(action["commitInfo"] for action in actions if "commitInfo" in action)
        added = [action["add"] for action in actions if "add" in action]
        rows = sum(json.loads(each["stats"])["numRecords"] for each in added)
        is_there = all((table / unquote(each["path"])).stat().st_size == each["size"] for each in added)
    except (OSError, ValueError, KeyError, StopIteration):
        return None
    is_meant = any(action.get("txn", {}).items() >= {"appId": app_id, "version": number}.items() for action in actions)
    if not is_there or not is_meant or any("remove" in action for action in actions):
        return None
    return Append(rows, info.get("userMetadata"))


def _actions(table: Path, version: int) -> Iterator[Action]:
    """Yield a version's actions, each parsed when it is needed: a commit may have thousands.

    Raises an OSError if the version is gone, a ValueError if its file is damaged.
    """
    return map(json.loads, (table / "_delta_log" / f"{version:020}.json").read_bytes().splitlines())


def last_version(table: Path) -> int:
    """Return the last version of a table, from the names of its commit files; -1 if there is none."""
    with suppress(OSError):
        names = os.listdir(table / "_delta_log")  # noqa: PTH208 -- 35,000 in a month, and a path for each takes longer
        return int(max(filter(_COMMIT.fullmatch, names), default="-1").removesuffix(".json"))
    return -1


def last_commits(table: Path, limit: int) -> list[tuple[int, Action]] | None:
    """Return version and `commitInfo` of the last commits, newest first; None if there is none, or one has no `commitInfo`."""
    found = []
    for version in range(last_version(table), -1, -1)[:limit]:
        try:
            actions = _actions(table, version)
            found.append((version, next(action["commitInfo"] for action in actions if "commitInfo" in action)))
        except FileNotFoundError:
            break
        except (ValueError, StopIteration):
            return None
    return found or None


def damaged_files(table: Files, log: Log) -> Iterator[Violation]:
    """Yield the live data files that are missing, or whose size differs from the log."""
    for name, size in sorted((log.files or {}).items()):
        if "://" in name or name.startswith(("/", "file:")):
            continue  # of a clone: the file belongs to another table
        observed = log.sizes.get(unquote(name))
        if observed != size:
            said = "no such file" if observed is None else f"{observed:,} bytes"
            yield Violation(f"{table.place}/{unquote(name)}", said, f"a data file of {size:,} bytes")


def old_files(table: Files) -> list[str] | None:
    """Return the files, of data and log, that only earlier versions use, or that the log still names; None if it is damaged."""
    log = read_log(table)
    if log.files is None:
        return None
    last = opened_from(table, log.version)
    unused = last.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False, full=True)
    in_log = (f"_delta_log/{name}" for name in before_checkpoint(log.names))
    return sorted({*in_log, *(unquote(name) for name in unused if not name.endswith(".crc"))})


def before_checkpoint(names: Collection[str]) -> list[str]:
    """Return the log files from before the last complete checkpoint, and the files that crashed writers left, sorted.

    >>> before_checkpoint([f"{2:020}.{end}" for end in ("checkpoint.parquet", "json", "json.0b3d.tmp")] + [f"{1:020}.json"])
    ['00000000000000000001.json', '00000000000000000002.json.0b3d.tmp']
    """
    last = _last_checkpoint(names)
    numbered = [(name, match) for name in names if (match := _OF_VERSION.fullmatch(name))]
    return sorted(name for name, match in numbered if int(match[1]) < last or name.endswith(".tmp"))


def _last_checkpoint(names: Iterable[str]) -> int:
    parts: dict[tuple[int, int], int] = {}
    for name in names:
        if match := _CHECKPOINT.fullmatch(name):
            key = (int(match[1]), int(match[2] or 1))
            parts[key] = parts.get(key, 0) + 1
    return max((version for (version, wanted), found in parts.items() if found >= wanted), default=-1)


def _where(folder: Files, commit: str) -> str:
    return f"{folder.place}/{commit}, version {int(commit.removesuffix('.json'))}"


def _damage(folder: Files, version: int, name: str | None) -> Violation | None:
    """Return what is wrong with a version's commit, which a crash may have emptied or cut off."""
    if name is None:
        return Violation(f"{folder.place}/{version:020}.json", "no such file", f"version {version} of the table")
    where, text, actions = _where(folder, name), folder.read(name), []
    if not text.strip():
        return Violation(where, f"{len(text)} bytes", "a commit: lines of JSON")
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            actions.append(json.loads(line))
        except ValueError:
            return Violation(f"{where}, line {number}", f"{len(line)} bytes that are no JSON", "a line of JSON")
    if any("commitInfo" in action for action in actions):
        return None
    return Violation(where, "no commitInfo", "a line that says what was committed")


def _lost(folder: Files, names: list[str], last: int) -> Iterator[Violation]:
    """Yield missing commits that left other files, which Delta writes only after the commit."""
    traces = {int(match[1]): name for name in reversed(names) if (match := _TRACE.fullmatch(name))}
    for version, name in sorted(traces.items()):
        if version > last:
            where = _where(folder, f"{version:020}.json")
            yield Violation(where, f"no such file, though {name} is there", f"the commit of version {version}")
