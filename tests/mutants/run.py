"""`make mutants` applies each fault of `tests/mutants/mutants.toml` to a copy of the product, and expects its tests to fail."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("mutants.toml")
FOLDERS = (
    *("bronze", "docs", "expectations", "gold", "jobs", "lakehouse", "pipelines", "producer", "silver"),
    *("tests", "tidemark"),
)
FILES = ("pyproject.toml", "README.md")
_SECONDS = 1200
_FAILED = 1  # exit code of pytest where a test failed. Others, and a timeout, show nothing.


@dataclass(frozen=True)
class Mutant:
    file: str  # from the root of the repository
    old: str  # the text that is replaced; it occurs once
    new: str
    fault: str  # in words
    tests: tuple[str, ...]  # the arguments of pytest that run the tests which must catch it


def read_mutants() -> list[Mutant]:
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def mutate(text: str, mutant: Mutant) -> str:
    if (found := text.count(mutant.old)) != 1:
        raise ValueError(f"{mutant.file}: found {found} times, expected once: {mutant.old!r}")
    return text.replace(mutant.old, mutant.new)


def copy_repository(folder: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "*.png")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


def run_tests(copy: Path, mutant: Mutant) -> tuple[str, str]:
    """Run the tests of a fault over a copy. Return `caught`, `survived` or `error`, and the end of pytest's output."""
    path = copy / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(mutate(original, mutant), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *mutant.tests]
    own = {"PYTHONPATH": os.pathsep.join((str(copy), str(copy / "producer"))), "TESTS_PROFILE": "unshrunk"}
    try:
        done = subprocess.run(
            command, cwd=copy, env={**os.environ, **own}, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
        outcome = {0: "survived", _FAILED: "caught"}.get(done.returncode, "error")
        return outcome, done.stdout[-3000:] + done.stderr[-1000:]
    except subprocess.TimeoutExpired:
        return "error", "timed out"
    finally:
        path.write_text(original, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="run the faults whose file or words contain this")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    mutants = [each for each in read_mutants() if asked.only in f"{each.file} {each.fault}"]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.processes) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(asked.processes):
            copies.put(copy_repository(Path(folder, str(number))))

        def run(mutant: Mutant) -> str:
            copy, start = copies.get(), time.monotonic()
            try:
                outcome, output = run_tests(copy, mutant)
            finally:
                copies.put(copy)
            print(f"{outcome:9}{time.monotonic() - start:5.0f} s  {mutant.file}: {mutant.fault}", flush=True)  # noqa: T201 -- its output
            if outcome != "caught":
                print(output, flush=True)  # noqa: T201 -- as above
            return outcome

        outcomes = list(pool.map(run, mutants))
    caught = outcomes.count("caught")
    print(f"{caught} of {len(outcomes)} faults were caught, in {(time.monotonic() - began) / 60:.0f} minutes.")  # noqa: T201 -- as above
    return 0 if caught == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
