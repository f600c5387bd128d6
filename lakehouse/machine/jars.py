"""The JVM jars that Tidemark needs in addition to pyspark's, in exact versions: fetched once, then used offline.

`jvm.xml` is the lock, `jvm.sha256` its checksums. pyspark's Apache Ivy resolves into a temporary folder, for one process at a
time. If names and SHA-256 match the lock, a rename puts the whole set in place, so a reader sees all jars or none.

Each start of a JVM compares every jar with the lock, in 0.05 s at most. No result is cached, as it could be forged.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from filelock import FileLock

from lakehouse.errors import ToolError, UsageError
from lakehouse.machine.java import java_executable

REQUIRED = ("spark", "broker")
CONFIGURATIONS = (*REQUIRED, "s3", "azure", "google")
"""The sets of jars. Those that are not required are fetched on request, or when a session needs them."""

LOCK_FILE = Path(__file__).with_name("jvm.xml")
CHECKSUM_FILE = Path(__file__).with_name("jvm.sha256")
_FETCH_SECONDS = 900


def cache_dir() -> Path:
    """Return the folder of this lock's jars, below $TIDEMARK_JARS, $XDG_CACHE_HOME/tidemark or ~/.cache/tidemark."""
    named = os.environ.get("TIDEMARK_JARS")
    caches = os.environ.get("XDG_CACHE_HOME")
    root = Path(named) if named else (Path(caches) if caches else Path.home() / ".cache") / "tidemark"
    return root.absolute() / sha256(LOCK_FILE.read_bytes())[:12]


def pinned(conf: str) -> dict[str, str]:
    """Return the SHA-256 of a set's pinned jars by file name; raise a `UsageError` if there is no such set."""
    if conf not in CONFIGURATIONS:
        raise UsageError("There is no such set of jars.", where="jars", observed=conf, expected=", ".join(CONFIGURATIONS))
    lines = [line.split() for line in CHECKSUM_FILE.read_text(encoding="utf-8").splitlines() if line]
    return {Path(path).name: digest for digest, path in lines if Path(path).parent.name == conf}


def packages() -> str:
    """Return the lock's Delta Lake and Kafka source as Maven coordinates, for `spark.jars.packages`.

    >>> packages()
    'io.delta:delta-spark_4.2_2.13:4.4.0,org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    return f"{coordinates('delta-spark_')},{coordinates('spark-sql-kafka-')}"


def coordinates(name: str) -> str:
    """Return the Maven coordinates of the lock's first jar whose name starts with `name`.

    >>> coordinates("protobuf-java")
    'com.google.protobuf:protobuf-java:4.36.2'
    """
    locked = ET.parse(LOCK_FILE).iter("dependency")  # noqa: S314 -- our own file
    found = next(each for each in locked if each.get("name", "").startswith(name))
    return f"{found.get('org')}:{found.get('name')}:{found.get('rev')}"


def compare(conf: str, folder: Path | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the jars of a set that a folder (the cache's) lacks, and the SHA-256 of those that differ from the lock."""
    folder, expected = folder or cache_dir() / conf, pinned(conf)
    found = {name: sha256((folder / name).read_bytes()) for name in sorted(expected) if (folder / name).is_file()}
    return sorted(expected.keys() - found), {name: digest for name, digest in found.items() if digest != expected[name]}


def fetch(conf: str | None = None) -> Path:
    """Fetch the jars of one set, or of all required sets; return the cache folder. Raises as `pinned`.

    Raises a `ToolError` if Java or pyspark is missing, the jars cannot be fetched, or the fetched jars differ from the lock.
    """
    folder = cache_dir()
    for each in REQUIRED if conf is None else [conf]:
        if not any(compare(each)):
            continue
        with at_work(folder) as work:
            if any(compare(each)):  # no other process fetched while this one waited for the lock
                arrived, target = retrieve(LOCK_FILE, each, work), folder / each
                _require_pinned(arrived, each)
                if target.exists():  # single jars were deleted or changed; a rename replaces only an empty folder
                    target.rename(work / "incomplete")
                arrived.rename(target)
    return folder


def spark_jars(conf: str = "spark") -> list[Path]:
    """Return a set's jars, fetched first if needed. Raises a `ToolError` as `fetch`, or for a changed jar, which is kept."""
    missing, changed = compare(conf)
    if missing:
        fetch(conf)
        _, changed = compare(conf)
    folder = cache_dir() / conf
    if changed:
        raise ToolError(
            "A jar in the cache is not the one the lock pins. No JVM was started from it.",
            where=str(folder),
            observed="; ".join(f"{name} has SHA-256 {digest}" for name, digest in changed.items()),
            expected=f"the checksums of {CHECKSUM_FILE.name}",
            next_step=f"Find out who changed it. `tidemark jars fetch {conf}` replaces it.",
        )
    return [folder / name for name in sorted(pinned(conf))]


def broker_classpath() -> str:
    """Return the class path of the local Kafka broker. Raises like `spark_jars`."""
    return os.pathsep.join(str(jar) for jar in spark_jars("broker"))


@contextlib.contextmanager
def at_work(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder in the cache, to one process at a time; raise a `ToolError` if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"), tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as work:
            yield Path(work)
    except OSError as error:
        raise ToolError(
            "The jars cannot be written.",
            where=str(folder),
            observed=str(error),
            expected="a folder that this user can write, with 200 MB free",
            next_step="Make room or rights there, or set TIDEMARK_JARS to another folder.",
        ) from error


def retrieve(lock: Path, conf: str, work: Path, names: str = "[artifact]-[revision].[ext]") -> Path:
    """Let Ivy fetch a set of a lock into a folder under `work`, and verify nothing; raise a `ToolError` on failure."""
    arrived, mirror = work / conf, os.environ.get("TIDEMARK_IVY_SETTINGS")
    command = [
        str(java_executable()),
        # Keeps Ivy out of ~/.ivy2: a jar built or corrupted there must not be taken for the published one.
        f"-Divy.default.ivy.user.dir={work / 'ivy'}",
        *("-jar", str(_ivy_jar())),
        *(("-settings", mirror) if mirror else ()),
        *("-ivy", str(lock), "-cache", str(work / "cache"), "-confs", conf),
        *("-retrieve", f"{arrived}/{names}", "-types", "jar", "bundle"),
    ]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise _not_fetched(lock, conf, f"no end after {_FETCH_SECONDS} s") from error
    if run.returncode != 0 or not arrived.is_dir():
        raise _not_fetched(lock, conf, _complaints(run.stdout + run.stderr))
    return arrived


def pyspark_folder() -> Path | None:
    """Return the folder of the installed pyspark, with its `jars`; None if there is none."""
    # An import of pyspark takes a second.
    spec = importlib.util.find_spec("pyspark")
    return next((Path(root) for root in spec.submodule_search_locations or []), None) if spec else None


def _ivy_jar() -> Path:
    home = pyspark_folder()
    found = sorted(home.glob("jars/ivy-*.jar")) if home else []
    if not found:
        raise ToolError(
            "The jars cannot be fetched: pyspark's Apache Ivy was not found.",
            where=str(home or "this Python environment"),
            observed="no jars/ivy-*.jar" if home else "no pyspark",
            expected="a pyspark with its jars",
            next_step="pip install 'tidemark-lakehouse[local]'. A platform with its own Spark needs no fetch, but the "
            "coordinates in docs/clusters.md.",
        )
    return found[-1]


def _complaints(output: str) -> str:
    """Return Ivy's error lines, or else the end of its output, without the user and password of a mirror."""
    lines = output.splitlines()
    is_error = re.compile(r"not found|error|exception|refused|denied", re.IGNORECASE)
    chosen = [line.strip() for line in lines if is_error.search(line)] or lines
    return re.sub(r"://[^/\s@]+@", "://***@", "\n".join(chosen[-8:]))


def _not_fetched(lock: Path, conf: str, observed: str) -> ToolError:
    return ToolError(
        "The jars could not be fetched.",
        where=f"configuration {conf} of {lock.name}",
        observed=observed,
        expected="every jar that it lists",
        next_step="Check the network. Behind a proxy, or with a mirror, name an Ivy settings file in TIDEMARK_IVY_SETTINGS. "
        "Then run `tidemark jars fetch` again; it keeps the sets that are complete.",
    )


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by name."""
    return {jar.name: sha256(jar.read_bytes()) for jar in sorted(folder.iterdir())}


def sha256(content: bytes) -> str:
    """Return the SHA-256 as a lock has it."""
    return hashlib.sha256(content).hexdigest()


def _require_pinned(arrived: Path, conf: str) -> None:
    missing, changed = compare(conf, arrived)
    faults = [f"{name} is missing" for name in missing]
    faults += [f"{name} is not in the lock" for name in sorted({each.name for each in arrived.iterdir()} - pinned(conf).keys())]
    faults += [f"{name} has SHA-256 {digest}" for name, digest in changed.items()]
    if faults:
        raise ToolError(
            "The fetched jars are not the ones that the lock pins. None of them was kept.",
            where=f"configuration {conf} of {LOCK_FILE.name}",
            observed="; ".join(faults),
            expected=f"the names and checksums of {CHECKSUM_FILE.name}",
            next_step="A mirror or proxy changed them: fetch from another one (TIDEMARK_IVY_SETTINGS). After a change of "
            f"{LOCK_FILE.name}: `python -m lakehouse.machine.jars pin`.",
        )


def pin() -> None:
    """Resolve the lock and write `jvm.sha256`. Run it after a change of `jvm.xml`, and review the diff."""
    with tempfile.TemporaryDirectory(prefix="tidemark-pin-") as work:
        sums = {conf: checksums(retrieve(LOCK_FILE, conf, Path(work) / conf)) for conf in CONFIGURATIONS}
    lines = [f"{digest}  {conf}/{name}\n" for conf, jars in sums.items() for name, digest in jars.items()]
    CHECKSUM_FILE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["pin"]:
        sys.exit("usage: python -m lakehouse.machine.jars pin")
    try:
        pin()
    except ToolError as error:
        sys.exit(f"tidemark: {error}")
