"""What a peer is asked and what it answers: a line of text each, over its standard input and output."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

INGEST, PREPARE, RUN = "ingest", "prepare", "run"
"""Fill Bronze; get ready; take in all there is."""
GENERATE = "generate"
"""Append generated records to Bronze, without a topic."""


@dataclass(frozen=True)
class Job:
    """One thing to do.

    Attributes:
        records: How many records the topic holds, or are to be generated.
        root: The lakehouse whose Bronze holds the topic.
        work: The peer's own folder.
        output: The topic to write.
        after_version: The version of Bronze up to which a former job has read; -1 before the first.
        after_records: How many generated records Bronze has already.
    """

    do: str
    peer: str = ""
    servers: str = ""
    topic: str = ""
    records: int = 0
    root: str = ""
    work: str = ""
    output: str = ""
    after_version: int = -1
    after_records: int = 0

    @property
    def table(self) -> Path:
        """Where the peer's table goes, unless it has a place of its own."""
        return Path(self.work) / "result"

    @property
    def state(self) -> Path:
        """Where the peer keeps what it would need to go on, unless it has a place of its own."""
        return Path(self.work) / "state"

    def line(self) -> str:
        r"""The job as a line that needs no library to be read.

        >>> Job(RUN, topic="t", records=5).line()
        'do=run\ttopic=t\trecords=5\tafter_version=-1\tafter_records=0'
        """
        return "\t".join(f"{name}={value}" for name, value in asdict(self).items() if value != "")

    @classmethod
    def parse(cls, line: str) -> Job:
        r"""The job of a line.

        >>> Job.parse("do=run\trecords=5").records
        5
        """
        given = dict(part.split("=", 1) for part in line.rstrip("\n").split("\t"))
        numbers = {each.name for each in fields(cls) if each.type == "int"}
        return cls(**{name: int(value) if name in numbers else value for name, value in given.items()})  # type: ignore[arg-type]  # by its field's type


@dataclass(frozen=True)
class Answer:
    """The folders of the result, of the held records and of a state outside the job's; Bronze's version; why it failed."""

    table: str = ""
    rejects: str = ""
    state: str = ""
    version: int = -1
    error: str = ""

    def line(self) -> str:
        """The answer as a line."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, line: str) -> Answer:
        """The answer of a line; a field that is missing has its default.

        >>> Answer.parse('{"error": "no"}').error
        'no'
        """
        return cls(**json.loads(line))
