"""Sends the rows of an outbox table, each under its number. It may be killed and started again at any moment.

    python outbox.py localhost:9092 payments shop.db
    python outbox.py localhost:9092 payments "dbname=shop" --postgres

The application inserts rows without a number, in the transaction of its own change. The relay numbers committed rows: `id`
is given at insert but seen at commit, so a row may appear below one that was sent already. Numbers are committed before
anything is sent under them. A row is deleted only when Kafka has it and all before it.
"""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from tidemark_producer import Given, Sender

TABLES = (
    "CREATE TABLE outbox (id {id}, sequence BIGINT UNIQUE, account TEXT, amount TEXT)",
    "CREATE TABLE outbox_last (sequence BIGINT NOT NULL)",
    "INSERT INTO outbox_last VALUES (0)",
)
"""What the application creates once, with its database's type of `id`."""

SQLITE_ID, POSTGRES_ID = "INTEGER PRIMARY KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"

BATCH = 1_000


def relay(config: dict[str, Any], topic: str, connect: Callable[[], Any], *, mark: str = "?", once: bool = False) -> None:
    """Send what is in the outbox, and what is added; `once` stops when it is empty. `mark` is the driver's `?` or `%s`."""
    with contextlib.closing(connect()) as database, Sender(config, "shop", Given(epoch=1)) as sender:
        while True:
            number(database, mark)
            rows = execute(
                database, "SELECT sequence, account, amount FROM outbox WHERE sequence IS NOT NULL ORDER BY sequence"
            )
            for sequence, account, amount in rows:
                sender.send(topic, amount, account, sequence=sequence)
            sender.flush()
            if sender.acknowledged is not None:
                execute(database, f"DELETE FROM outbox WHERE sequence <= {mark}", sender.acknowledged.sequence)
            if not rows and once:
                return
            if not rows:
                time.sleep(1)


def number(database: Any, mark: str) -> None:
    """Number the rows that have no number, above all that were ever given, in one transaction."""
    # Lock the row first, so that a second relay, started by mistake, waits here and sees these numbers.
    execute(database, "UPDATE outbox_last SET sequence = sequence", commit=False)
    ((last,),) = execute(database, "SELECT sequence FROM outbox_last", commit=False)
    new = execute(database, f"SELECT id FROM outbox WHERE sequence IS NULL ORDER BY id LIMIT {BATCH}", commit=False)
    for sequence, (row,) in enumerate(new, start=last + 1):
        execute(database, f"UPDATE outbox SET sequence = {mark} WHERE id = {mark}", sequence, row, commit=False)
    execute(database, f"UPDATE outbox_last SET sequence = {mark}", last + len(new))


def execute(database: Any, statement: str, *values: Any, commit: bool = True) -> list[tuple[Any, ...]]:
    """Run a statement, and return the rows that it finds."""
    cursor = database.cursor()
    cursor.execute(statement, values)
    found = list(cursor.fetchall()) if cursor.description else []
    if commit:
        database.commit()
    return found


def main() -> None:
    """Run the relay over an SQLite database, or over PostgreSQL."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brokers")
    parser.add_argument("topic")
    parser.add_argument("database", help="a file of SQLite, or with --postgres what psycopg connects to")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--once", action="store_true", help="end when the outbox is empty")
    given = parser.parse_args()
    config = {"bootstrap.servers": given.brokers}
    if given.postgres:
        import psycopg

        relay(config, given.topic, lambda: psycopg.connect(given.database), mark="%s", once=given.once)
    else:
        relay(config, given.topic, lambda: sqlite3.connect(given.database, timeout=30), once=given.once)


if __name__ == "__main__":
    main()
