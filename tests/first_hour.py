"""Run every command of `docs/first-hour.md`: `make first-hour` checks the output, `--write` puts it into the page."""

import argparse
import contextlib
import getpass
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidemark.extras.demo.broker import down
from tidemark.extras.demo.broker_process import HOST, free_port

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "first-hour.md"
PORT = "9092"  # as the page writes it
_STEP = re.compile(r"```sh\n(?P<command>.+?)\n```\n(?P<shown>\n```text\n(?P<text>.*?)\n```\n)?", re.DOTALL)
_PRODUCER = re.compile(r"```python\n(.*?\n)```", re.DOTALL)
_CRON = re.compile(r"(?m)^\*/5 .* && (tidemark run .*)$")

SAYS: tuple[tuple[str, ...], ...] = (
    ("records in",),
    ("Created orders with 2 partitions",),
    (),
    (
        "The sequence is json:$.number: the only one that fits.",
        "Next:\n  tidemark check\n  tidemark run",
        "json:$.at      it looks like a time",
    ),
    ("sequence: {json: $.number}", "pipeline: orders", "#   schema: order STRING, number BIGINT, amount DOUBLE, at BIGINT"),
    ("ok  sequence", "json:$.number in 1,049 of 1,049 records, 1 to 1,000", "put-if-absent"),
    ("bronze", "records 1,049"),
    ("The next load is load 1: 1,049 records", "duplicate"),
    ("records 1,049", "accepted 999", "duplicate 50"),
    ("999",),
    (),
    ("accepted 10", "late 1"),
    ("late", "524"),
    ('"number": 500', "What its load accepted was published"),
    ("Released 1 record",),
    ("last load seq 3, records 1",),
    ("the shop confirmed order 500",),
    ("500,late",),
    (),
    ("Lag: 0 offsets behind Kafka in 2 partitions.",),
    ('"records": 0',),
)  # what each command of the page has to print. Nothing prints `NO `, by which `check` begins what it misses.


def steps() -> list[re.Match[str]]:
    return list(_STEP.finditer(PAGE.read_text(encoding="utf-8")))


@contextlib.contextmanager
def own_broker(folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(folder / "state"))
        try:
            yield str(free_port())
        finally:
            down()


def play(folder: Path, port: str, run: Callable[[str, Path], tuple[int, str]]) -> Iterator[tuple[str, str]]:
    page = PAGE.read_text(encoding="utf-8")
    (folder / "orders.py").write_text(_PRODUCER.findall(page)[0], encoding="utf-8")
    for step, says in zip(steps(), SAYS, strict=True):
        command = step["command"].replace(f"localhost:{PORT}", f"{HOST}:{port}").replace(f"--port {PORT}", f"--port {port}")
        code, printed = run(command, folder)
        assert code == 0, f"{step['command']}\nended with {code}\n{printed}"
        assert all(text in printed for text in says), f"expected {says}\n{step['command']}\n{printed}"
        assert "NO  " not in printed, printed
        yield step["command"], printed
    assert (folder / "report.html").stat().st_size > 0
    scheduled = _CRON.findall(page)[0].replace("tidemark", f"{shlex.quote(sys.executable)} -m tidemark")
    # As cron calls it: with nothing of this shell's environment.
    bare = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "TIDEMARK_JARS") if name in os.environ}
    environment = {**bare, "PYTHONPATH": str(ROOT)}
    called = subprocess.run(scheduled, cwd=folder, env=environment, shell=True, check=False)  # noqa: S602 -- our own text
    assert called.returncode == 0, (folder / "runs.log").read_text(encoding="utf-8")
    assert '"accepted": 0' in (folder / "runs.jsonl").read_text(encoding="utf-8")


def in_a_process(command: str, folder: Path) -> tuple[int, str]:
    program, *arguments = shlex.split(command)
    programs = {"tidemark": [sys.executable, "-m", "tidemark"], "python": [sys.executable]}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMARK_") or name == "TIDEMARK_JARS"}
    done = subprocess.run(
        [*programs.get(program, [program]), *arguments],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + (done.stderr[-4000:] if done.returncode else "")


def _neutral(printed: str, folder: Path, port: str) -> str:
    text = (
        printed.replace(f"{HOST}:{port}", f"localhost:{PORT}")
        .replace(str(folder.resolve()), "/srv/orders")
        .replace(str(Path.home()), "~")
    )
    text = re.sub(r",? *seconds [0-9.]+(?=[,\n]|$)|, [0-9.]+ s$", "", text, flags=re.MULTILINE)
    text = text.replace(f"by {getpass.getuser()} in", "by ann in")
    text = re.sub(r"(~|/\S+)/\.cache/tidemark/[0-9a-f]{12}", "~/.cache/tidemark", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description="Play the newcomer's first hour, and check what is printed.")
    parser.add_argument("--write", action="store_true", help=f"write what was printed into {PAGE.relative_to(ROOT)}")
    is_written, page, written = parser.parse_args().write, PAGE.read_text(encoding="utf-8"), []
    with tempfile.TemporaryDirectory(prefix="tidemark-first-hour-") as name, own_broker(Path(name)) as port:
        for command, printed in play(Path(name), port, in_a_process):
            sys.stdout.write(f"$ {command}\n{printed}\n")
            sys.stdout.flush()
            written.append(_neutral(printed, Path(name), port))
    if is_written:
        texts = iter(written)

        def shown(step: re.Match[str]) -> str:
            text = next(texts)
            return step[0] if step["shown"] is None else f"```sh\n{step['command']}\n```\n\n```text\n{text}\n```\n"

        PAGE.write_text(_STEP.sub(shown, page), encoding="utf-8")
    sys.stdout.write(f"{len(written)} steps, each as expected.\n")


if __name__ == "__main__":
    main()
