"""`make cdc` records Debezium, killed in transactions: its records (`postgres.jsonl.gz`), and the tables (`postgres.json`)."""

import contextlib
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from lakehouse.machine import jars
from lakehouse.machine.java import java_executable
from tests.support.served import kept_program
from tidemark.extras.demo.broker import LocalBroker, create_topic
from tidemark.extras.demo.broker_process import HOST, LOGGING, free_port

DEBEZIUM, KAFKA = "3.6.1.Final", "4.3.1"
FOLDER = Path(__file__).parent
RECORDS, TABLES = FOLDER / "postgres.jsonl.gz", FOLDER / "postgres.json"
TOPICS = {"accounts": "shop.public.accounts", "entries": "shop.public.entries"}
PARTITIONS = 3
_NO_POSTGRES = "PostgreSQL 14 or later is missing: initdb, postgres and psql. Debian, Ubuntu: apt install postgresql"
_LOCK = f"""<ivy-module version="2.0">
  <info organisation="tidemark" module="cdc"/>
  <configurations><conf name="cdc"/></configurations>
  <dependencies>
    <dependency org="io.debezium" name="debezium-connector-postgres" rev="{DEBEZIUM}" conf="cdc->runtime,master"/>
    <dependency org="org.apache.kafka" name="connect-runtime" rev="{KAFKA}" conf="cdc->runtime,master"/>
    <dependency org="org.apache.kafka" name="connect-json" rev="{KAFKA}" conf="cdc->runtime,master"/>
  </dependencies>
</ivy-module>
"""
_SECONDS = 600
_ALWAYS, _SELDOM = 1, 3_600_000  # milliseconds between two times when the connector keeps its offsets
_WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    # One record a request: a kill hits the middle of a transaction.
    "producer.max.in.flight.requests.per.connection": "1",
    "producer.batch.size": "0",
}
_CONNECTOR = {
    "name": "shop",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.hostname": HOST,
    "database.user": "postgres",
    "database.dbname": "postgres",
    "topic.prefix": "shop",
    "table.include.list": "public.accounts,public.entries",
    "publication.autocreate.mode": "filtered",
    "signal.data.collection": "public.signals",
    "incremental.snapshot.chunk.size": "16",
    "provide.transaction.metadata": "true",
    "max.batch.size": "1",
    "max.queue.size": "2",
    "poll.interval.ms": "10",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.default.partitions": "1",
}
_SCHEMA = """
CREATE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT, cents BIGINT NOT NULL, note TEXT);
CREATE TABLE entries (account BIGINT, nr BIGINT, cents BIGINT NOT NULL, PRIMARY KEY (account, nr));
CREATE TABLE signals (id TEXT PRIMARY KEY, type TEXT NOT NULL, data TEXT);
"""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tidemark-cdc-") as work, LocalBroker() as broker:
        for topic in TOPICS.values():
            create_topic(broker.bootstrap_servers, topic, PARTITIONS)
        with _postgres(Path(work) / "postgres") as port:
            recorder = _Recorder(Path(work), port, broker.bootstrap_servers)
            try:
                recorder.play()
            finally:
                recorder.kill()
            recorder.write()


class _Session:
    """A session of psql: transactions of two sessions overlap."""

    def __init__(self, port: int) -> None:
        command = [_program("psql"), "-h", HOST, "-p", str(port), "-U", "postgres", "-XqAt", "-v", "ON_ERROR_STOP=1"]
        self._psql = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, sql: str) -> list[str]:
        """Execute statements, and return the lines that they print."""
        assert self._psql.stdin
        assert self._psql.stdout
        self._psql.stdin.write(f"{sql.rstrip().removesuffix(';')};\n\\echo DONE\n")
        self._psql.stdin.flush()
        found: list[str] = []
        for line in iter(self._psql.stdout.readline, ""):
            if line == "DONE\n":
                return found
            found.append(line.removesuffix("\n"))
        raise RuntimeError(f"psql ended in {sql}")


class _Recorder:
    def __init__(self, work: Path, port: int, servers: str) -> None:
        self._work, self._port, self._servers = work, port, servers
        self._connect: subprocess.Popen[bytes] | None = None
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "cdc", "enable.auto.commit": False})
        places = [TopicPartition(topic, nth, OFFSET_BEGINNING) for topic in TOPICS.values() for nth in range(PARTITIONS)]
        self._consumer.assign(places)
        self.records: list[dict[str, Any]] = []
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self._first, self._second = _Session(port), _Session(port)

    def play(self) -> None:
        """Record snapshots and changes. Kill the connector in a snapshot and in three transactions."""
        first = self._first
        first.run(_SCHEMA)
        first.run("INSERT INTO accounts SELECT id, 'owner ' || id, 100 * id, 'opened' FROM generate_series(1, 40) AS id")
        first.run("INSERT INTO entries SELECT id, 1, 100 * id FROM generate_series(1, 20) AS id")
        self._start(_SELDOM)
        self._await("rows of the snapshot", lambda: len(self.records) >= 15)
        self.kill()
        aborted = len(self.records)
        self._start(_ALWAYS)
        self._await("the snapshot", lambda: len(self.records) >= aborted + 60)
        self._kill_within(1)  # of the first transaction: the connector knows no commit yet
        self._start(_ALWAYS)
        self._catch_up()
        self.kill()
        self._start(_SELDOM)
        self._catch_up()
        self._change(1)
        self._catch_up()
        self._kill_within(2)  # no offset was kept since the start: all comes again
        self._start(_ALWAYS)
        self._catch_up()
        self._change(2)
        self._catch_up()
        self._kill_within(3)  # offsets are kept all the time: the connector continues within the transaction
        self._start(_ALWAYS)
        self._catch_up()
        self._snapshot_again()
        self._catch_up()
        self.kill()
        self._start(_SELDOM, **{"snapshot.mode": "always"})
        self._catch_up()
        self._change(3)
        self._catch_up()
        for table, key in (("accounts", "id"), ("entries", "account, nr")):
            self.tables[table] = [json.loads(row) for row in first.run(f"SELECT row_to_json(t) FROM {table} t ORDER BY {key}")]

    def _change(self, nth: int) -> None:
        """Single and many rows, COPY, changed keys, deletes, a rollback, and transactions that overlap."""
        first, second, base = self._first, self._second, 1000 * nth
        first.run(f"INSERT INTO accounts VALUES ({base}, 'Änne \"{nth}\"', 5, NULL)")
        first.run(f"INSERT INTO accounts SELECT {base} + n, 'many', n, '{{}}' FROM generate_series(1, 20) AS n")
        first.run(f"COPY accounts FROM PROGRAM 'seq {base + 100} {base + 119} | sed s/$/,copied,1,/' CSV")
        first.run(f"UPDATE accounts SET cents = cents + 1, note = 'updated {nth}' WHERE id % 7 = {nth}")
        first.run(f"UPDATE accounts SET id = id + 500 WHERE id BETWEEN {base} AND {base + 4}")
        first.run(f"DELETE FROM accounts WHERE id IN ({base + 101}, {base + 102}, {nth})")
        first.run(
            f"BEGIN; DELETE FROM accounts WHERE id = {base + 103}; INSERT INTO accounts VALUES ({base + 103}, 'back', 0, '');"
            f"UPDATE accounts SET cents = 1 WHERE id = {base + 103}; SAVEPOINT a; DELETE FROM accounts; ROLLBACK TO a; COMMIT"
        )
        for turn in range(4):
            account = base + 105 + 3 * turn
            first.run(f"BEGIN; INSERT INTO entries SELECT {account}, n, n FROM generate_series(1, 3) AS n")
            second.run(f"BEGIN; INSERT INTO entries VALUES ({account + 1}, 1, 1)")
            second.run(f"UPDATE accounts SET cents = cents + 1 WHERE id = {account + 1}")
            first.run(f"UPDATE accounts SET cents = cents + 6 WHERE id = {account}")
            second.run("COMMIT")
            second.run(f"UPDATE accounts SET note = 'between' WHERE id = {account + 2}")
            first.run(f"DELETE FROM entries WHERE account = {account} AND nr = 2; COMMIT")

    def _kill_within(self, nth: int) -> None:
        """Kill the connector after it has sent a part of a transaction."""
        before, rows = len(self.records), 60
        self._first.run(f"INSERT INTO entries SELECT n, 100 + {nth}, n FROM generate_series(1, {rows}) AS n")
        self._await("part of a transaction", lambda: len(self.records) >= before + rows // 4)
        self.kill()
        if len(self.records) >= before + rows:
            raise RuntimeError("The connector had sent the whole transaction when it was killed.")

    def _snapshot_again(self) -> None:
        """Ask for an incremental snapshot, and change rows while it reads them in chunks."""
        data = json.dumps({"data-collections": ["public.accounts", "public.entries"], "type": "incremental"})
        self._first.run(f"INSERT INTO signals VALUES ('again', 'execute-snapshot', '{data}')")
        for turn in range(6):
            self._first.run(f"BEGIN; UPDATE accounts SET cents = cents + 1 WHERE id % 20 = {turn}")
            time.sleep(0.05)
            self._first.run(f"UPDATE entries SET cents = cents + 1 WHERE account % 20 = {turn}; COMMIT")

    def _catch_up(self) -> None:
        """Wait for the change of a row that is committed last, and for two quiet seconds."""
        mark = f"mark {time.monotonic_ns()}"
        self._first.run(f"INSERT INTO accounts VALUES (0, '{mark}', 0, '') ON CONFLICT (id) DO UPDATE SET owner = '{mark}'")
        self._await(mark, lambda: any(mark in (each["value"] or "") for each in self.records[-200:]))
        self._drain()

    def _start(self, flush_ms: int, **settings: str) -> None:
        port, folder = free_port(), self._work
        offsets = {"offset.storage.file.filename": str(folder / "offsets"), "offset.flush.interval.ms": str(flush_ms)}
        worker = {"bootstrap.servers": self._servers, "listeners": f"http://{HOST}:{port}", **_WORKER, **offsets}
        connector = {**_CONNECTOR, "database.port": str(self._port), **settings}
        files = [_properties(folder / "worker", worker), _properties(folder / "connector", connector)]
        logging = folder / "log4j2.properties"
        logging.write_text(LOGGING, encoding="utf-8")
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={logging}"]
        program = [*options, "-cp", _classpath(), "org.apache.kafka.connect.cli.ConnectStandalone", *files]
        with (folder / "connect.log").open("ab") as log:
            self._connect = subprocess.Popen(
                [str(java_executable()), *program], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self._connect:
            self._connect.kill()
            self._connect.wait()
        self._drain()

    def _await(self, what: str, is_there: Callable[[], bool]) -> None:
        until = time.monotonic() + _SECONDS
        while not is_there():
            if time.monotonic() > until:
                raise TimeoutError(f"no {what}: {(self._work / 'connect.log').read_text()[-4000:]}")
            self._read(0.05)

    def _drain(self) -> None:
        while self._read(2):
            pass

    def _read(self, seconds: float) -> int:
        found = self._consumer.consume(1, seconds)
        self.records += [_as_row(each) for each in found]
        return len(found)

    def write(self) -> None:
        self._consumer.close()
        self.records.sort(key=lambda each: (each["timestamp"], each["topic"], each["partition"], each["offset"]))
        lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in self.records)
        RECORDS.write_bytes(gzip.compress(lines.encode(), mtime=0))
        TABLES.write_text(json.dumps(self.tables, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{len(self.records)} records")  # noqa: T201 -- a program's answer


def _as_row(message: Message) -> dict[str, Any]:
    if message.error():
        raise RuntimeError(message.error())
    given = cast(list[tuple[str, bytes | None]], message.headers() or [])
    headers = [[name, value and value.decode()] for name, value in given]
    texts = {name: value and value.decode() for name, value in (("key", message.key()), ("value", message.value()))}
    place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
    return {**place, "timestamp": message.timestamp()[1], **texts, "headers": headers}


@contextlib.contextmanager
def _postgres(folder: Path) -> Iterator[int]:
    """A PostgreSQL of its own in a folder; yields its port. It refuses to run as root."""
    user = "postgres" if os.geteuid() == 0 else None
    folder.mkdir()
    if user:
        folder.parent.chmod(0o755)
        shutil.chown(folder, user)
    initdb = [_program("initdb"), "--auth=trust", "--encoding=utf8", "--locale=C", "-U", "postgres", "-D", str(folder)]
    subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=folder)
    port = free_port()
    settings = ("wal_level=logical", "fsync=off", f"listen_addresses={HOST}", f"port={port}", "unix_socket_directories=")
    command = [_program("postgres"), "-D", str(folder), *(part for each in settings for part in ("-c", each))]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user, cwd=folder)
    try:
        ready = [_program("pg_isready"), "-q", "-h", HOST, "-p", str(port), "-t", "60"]
        until = time.monotonic() + _SECONDS
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > until:
                raise TimeoutError((folder / "log").read_text())
            time.sleep(0.1)
        yield port
    finally:
        server.send_signal(signal.SIGINT)  # a shutdown that does not wait for sessions
        server.wait(_SECONDS)


def _program(name: str) -> str:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))  # Debian keeps them off the path
    found = shutil.which(name) if not installed else str(installed[-1])
    return found or sys.exit(_NO_POSTGRES)


def _properties(file: Path, settings: dict[str, str]) -> str:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return str(file)


def _classpath() -> str:
    def fetch(work: Path) -> Path:
        (work / "ivy.xml").write_text(_LOCK, encoding="utf-8")
        return jars.retrieve(work / "ivy.xml", "cdc", work / "fetched", "[artifact]-[revision](-[classifier]).[ext]")

    return os.pathsep.join([str(kept_program(f"debezium-{DEBEZIUM}", fetch) / "*"), jars.broker_classpath()])


if __name__ == "__main__":
    main()
