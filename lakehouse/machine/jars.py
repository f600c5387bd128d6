"""The JVM jars that Tidemark needs in addition to pyspark's: fetched once, in exact versions, and used offline from then on.

`jvm.xml` is the lock, `jvm.sha256` its checksums. A fetch uses the Apache Ivy that pyspark ships:

1. A lock file next to the jars admits one process at a time.
2. Ivy resolves into a temporary folder in the same cache folder.
3. Names and SHA-256 of the fetched jars are compared with the lock.
4. A rename puts the whole set in place, so a reader sees all jars or none.

Each start of a JVM compares every jar with the lock. That takes 0.05 s at most, so no result is cached that could be forged.
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
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from filelock import FileLock

from lakehouse.errors import ToolError, UsageError
from lakehouse.machine.java import java_executable

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIGURATIONS = ("spark", "broker", "s3", "azure", "google")
OPTIONAL = ("s3", "azure", "google")
"""The sets that are fetched only on request, or when a session needs them."""

LOCK_FILE = Path(__file__).with_name("jvm.xml")
CHECKSUM_FILE = Path(__file__).with_name("jvm.sha256")
_FETCH_SECONDS = 900
_MIRROR = (
    "Check the network. Behind a proxy or with a mirror: write an Ivy settings file that names it and set "
    "TIDEMARK_IVY_SETTINGS to its path. Then run `tidemark jars fetch` again; what is in place already is kept."
)


def cache_dir() -> Path:
    """Return the folder, by hash, of this lock's jars in $TIDEMARK_JARS, $XDG_CACHE_HOME/tidemark or ~/.cache/tidemark."""
    named = os.environ.get("TIDEMARK_JARS")
    caches = os.environ.get("XDG_CACHE_HOME")
    root = Path(named) if named else (Path(caches) if caches else Path.home() / ".cache") / "tidemark"
    return root.absolute() / hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest()[:12]


def pinned(conf: str) -> dict[str, str]:
    """Return a configuration's pinned jars, file name to SHA-256; raise a `UsageError` if there is no such configuration."""
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
    """Return the Maven coordinates of the first jar of the lock whose name begins so.

    >>> coordinates("protobuf-java")
    'com.google.protobuf:protobuf-java:4.36.2'
    """
    locked = ET.parse(LOCK_FILE).iter("dependency")  # noqa: S314 -- our own file
    found = next(each for each in locked if each.get("name", "").startswith(name))
    return f"{found.get('org')}:{found.get('name')}:{found.get('rev')}"


def missing(conf: str) -> list[str]:
    """Return the names of a configuration's jars that are not in the cache, sorted."""
    folder = cache_dir() / conf
    return sorted(name for name in pinned(conf) if not (folder / name).is_file())


def differing(conf: str) -> list[str]:
    """Return the names of a configuration's jars whose bytes in the cache differ from the lock, sorted."""
    folder, expected = cache_dir() / conf, pinned(conf)
    there = [name for name in expected if (folder / name).is_file()]
    return sorted(name for name in there if _sha256(folder / name) != expected[name])


def fetch(conf: str | None = None) -> Path:
    """Fetch the jars of one configuration, or of all but the optional ones; return the cache folder.

    Raises:
        UsageError: There is no such configuration.
        ToolError: Java or pyspark is missing, the jars could not be fetched, or the fetched jars differ from the lock.
    """
    folder = cache_dir()
    for each in [name for name in CONFIGURATIONS if name not in OPTIONAL] if conf is None else [conf]:
        if missing(each) or differing(each):
            _fetch_into(folder, each)
    return folder


def spark_jars(conf: str = "spark") -> list[Path]:
    """Return a configuration's jars, fetched first if needed; raise a `ToolError` as `fetch`, or if one differs from the lock.

    A changed jar is not replaced.
    """
    if missing(conf):
        fetch(conf)
    folder = cache_dir() / conf
    if changed := differing(conf):
        raise ToolError(
            "A jar in the cache is not the one the lock pins. No JVM was started from it.",
            where=str(folder),
            observed="; ".join(f"{name} has SHA-256 {_sha256(folder / name)}" for name in changed),
            expected=f"the checksums of {CHECKSUM_FILE.name}",
            next_step=f"Find out who changed it. `tidemark jars fetch {conf}` replaces it.",
        )
    return [folder / name for name in sorted(pinned(conf))]


def broker_classpath() -> str:
    """Return the class path of the local Kafka broker. Raises as `spark_jars`."""
    return os.pathsep.join(str(jar) for jar in spark_jars("broker"))


def _fetch_into(folder: Path, conf: str) -> None:
    """Steps 1 to 4 of the module's docstring, for one configuration."""
    with at_work(folder) as work:
        if not missing(conf) and not differing(conf):  # another process fetched while this one waited for the lock
            return
        arrived = retrieve(LOCK_FILE, conf, work)
        _require_pinned(arrived, conf)
        _put_in_place(arrived, folder / conf, aside=work / "incomplete")


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
    """Let Ivy fetch a configuration of a lock, not verified, into a folder under `work`; raise a `ToolError` on failure."""
    arrived = work / conf
    command = [
        str(java_executable()),
        # Keeps Ivy out of ~/.ivy2: a jar built or corrupted there must not be taken for the published one.
        f"-Divy.default.ivy.user.dir={work / 'ivy'}",
        *("-jar", str(_ivy_jar())),
        *_mirror_settings(),
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
    # find_spec, not import: importing pyspark takes a second, and only its folder is needed.
    spec = importlib.util.find_spec("pyspark")
    return next((Path(root) for root in spec.submodule_search_locations or []), None) if spec else None


def _ivy_jar() -> Path:
    home = pyspark_folder()
    found = sorted(home.glob("jars/ivy-*.jar")) if home else []
    if not found:
        raise ToolError(
            "The Apache Ivy that pyspark ships was not found, so the jars cannot be fetched.",
            where=str(home or "this Python environment"),
            observed="no jars/ivy-*.jar" if home else "no pyspark",
            expected="a pyspark with its jars",
            next_step="Install Tidemark with its Spark: pip install 'tidemark-lakehouse[local]'. A platform that brings its "
            "Spark needs no fetch: give it the coordinates in docs/clusters.md.",
        )
    return found[-1]


def _mirror_settings() -> list[str]:
    settings = os.environ.get("TIDEMARK_IVY_SETTINGS")
    if not settings:
        return []
    if not Path(settings).is_file():
        raise ToolError(
            "The Ivy settings file does not exist.",
            where="environment variable TIDEMARK_IVY_SETTINGS",
            observed=settings,
            expected="the path of an Ivy settings file",
            next_step="Correct or unset the variable.",
        )
    return ["-settings", settings]


def _complaints(output: str) -> str:
    """Return Ivy's error lines, or else the end of its output, without the user and password of a mirror."""
    lines = output.splitlines()
    telling = re.compile(r"not found|error|exception|refused|denied", re.IGNORECASE)
    chosen = [line.strip() for line in lines if telling.search(line)] or lines
    return re.sub(r"://[^/\s@]+@", "://***@", "\n".join(chosen[-8:]))


def _not_fetched(lock: Path, conf: str, observed: str) -> ToolError:
    return ToolError(
        "The jars could not be fetched.",
        where=f"configuration {conf} of {lock.name}",
        observed=observed,
        expected="every jar that it lists",
        next_step=_MIRROR,
    )


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder, by name."""
    return {jar.name: _sha256(jar) for jar in sorted(folder.iterdir())}


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _require_pinned(arrived: Path, conf: str) -> None:
    expected, observed = pinned(conf), checksums(arrived)
    faults = [f"{name} is missing" for name in sorted(expected.keys() - observed.keys())]
    faults += [f"{name} is not in the lock" for name in sorted(observed.keys() - expected.keys())]
    differing = sorted(name for name in expected.keys() & observed.keys() if expected[name] != observed[name])
    faults += [f"{name} has SHA-256 {observed[name]}" for name in differing]
    if faults:
        raise ToolError(
            "The jars that arrived are not the ones the lock pins. None of them was kept.",
            where=f"configuration {conf} of {LOCK_FILE.name}",
            observed="; ".join(faults),
            expected=f"the names and checksums of {CHECKSUM_FILE.name}",
            next_step="A mirror or proxy changed them: fetch from another one (TIDEMARK_IVY_SETTINGS). After a change of "
            f"{LOCK_FILE.name}: `python -m lakehouse.machine.jars pin`.",
        )


def _put_in_place(arrived: Path, target: Path, aside: Path) -> None:
    if target.exists():  # single jars were deleted or changed: a rename cannot replace a folder that is not empty
        target.rename(aside)
    arrived.rename(target)


def pin() -> None:
    """Resolve the lock again and write `jvm.sha256`. Run it after changing `jvm.xml`, and review the diff."""
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
