"""The errors that Tidemark raises, with their exit codes. Each part of a message is also an attribute."""

from typing import Any, ClassVar, Self

from lakehouse.escape import part_of_error, printable, shortened

_LONGEST_PART = 2_000  # characters of each part of a message


class TidemarkError(Exception):
    """Base class of all errors. Exit code 1: the operation failed; the tables are unchanged, or the next run finishes them.

    `is_reported` is true if a run's report has shown the message, so that the process does not print it again.
    """

    exit_code: ClassVar[int] = 1
    is_reported = False

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        observed: object = None,
        expected: object = None,
        next_step: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.observed = observed
        self.expected = expected
        self.next_step = next_step
        super().__init__(self._message())

    def __reduce__(self) -> tuple[Any, ...]:
        """Make every subclass picklable, whatever its arguments: pools and schedulers pass errors between processes."""
        return type(self).__new__, (type(self), *self.args), self.__dict__

    def _message(self) -> str:
        parts = {"where": self.where, "observed": self.observed, "expected": self.expected, "next": self.next_step}
        # A part may hold names chosen by a producer: the message is escaped and truncated, the attributes are not.
        shown = {name: part_of_error(shortened(str(part), _LONGEST_PART)) for name, part in parts.items() if part is not None}
        lines = [f"  {name}: {part}" for name, part in shown.items()]
        return "\n".join([printable(shortened(self.what, _LONGEST_PART)), *lines])


class ConfigError(TidemarkError):
    """The config, a TIDEMARK_ variable or a flag is wrong. Nothing was started. Exit code 2."""

    exit_code = 2


class UsageError(TidemarkError):
    """The command line names something that does not exist, or options that do not go together. Exit code 2."""

    exit_code = 2


class GateFailedError(TidemarkError):
    """A critical expectation failed or errored: Gold keeps its last audited state. Exit code 3."""

    exit_code = 3


class AnotherWriterError(TidemarkError):
    """Another run holds the lock, or claimed the load first. None of this run's load was written. Exit code 4."""

    exit_code = 4


class UndoneError(AnotherWriterError):
    """A restore or rebuild rolled the load back while this run was paused; the run writes no more of it. Exit code 4."""

    @classmethod
    def of(cls, where: str) -> Self:
        """Build the error for a write to a table."""
        what = "A restore or a rebuild has undone the load that this run was writing; the run wrote no more of it."
        return cls(what, where=where, next_step="Nothing to do: the next run decides these records again.")


class BreakerOpenError(TidemarkError):
    """The load looks wrong as a whole and was stopped before anything was written. Exit code 5."""

    exit_code = 5


class SourceError(TidemarkError):
    """Kafka refused, was unreachable, lacks the topic, or no longer has the offsets.

    `topics` names the topics that cannot be read; empty if the cause concerns all topics.
    """

    topics: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The message and what was observed, in one line."""
        return f"{self.what} {self.observed or ''}".strip()


class RegistryError(TidemarkError):
    """The schema registry cannot be reached, or lacks a schema that records were written with. Nothing was written."""


class TopicRecreatedError(SourceError):
    """A topic was recreated since Bronze last read it: its id differs, or its offsets went back. Nothing was read."""


class OffsetsExpiredError(SourceError):
    """Kafka no longer has the records to be read next. Earlier commits stay."""


class BatchCorruptError(SourceError):
    """A batch of a topic's log cannot be decoded, mostly by its checksum. Earlier commits stay."""

    lost: tuple[tuple[int, int, int], ...] = ()
    """The batch as (partition, first offset, last offset), both ends inclusive; empty if it is not known exactly."""


class TopicsSkippedError(SourceError):
    """Topics that cannot be read were skipped, as the config says. The others were read, decided and published."""


class ContractError(TidemarkError):
    """A DataFrame or table lacks its contract's columns. `wrong_type` holds (column, observed type, expected type)."""

    def __init__(
        self,
        where: str,
        *,
        missing: list[str],
        unexpected: list[str],
        wrong_type: list[tuple[str, str, str]],
        next_step: str | None = None,
    ) -> None:
        self.missing = missing
        self.unexpected = unexpected
        self.wrong_type = wrong_type
        found = [f"{column} is missing" for column in missing]
        found += [f"{column} is unexpected" for column in unexpected]
        found += [f"{column} is {observed}, not {expected}" for column, observed, expected in wrong_type]
        what = "The columns are not those of the contract."
        super().__init__(what, where=where, observed="; ".join(found), next_step=next_step)


class TableStateError(TidemarkError):
    """The tables contradict each other: one was restored, emptied or written without the others."""


class ClaimStuckError(TidemarkError):
    """A load is claimed, but a table refuses it. The next run retries; a restore to the load before discards it."""


class TableMissingError(TableStateError):
    """A table that the operation reads does not exist."""


class RulesChangedError(TidemarkError):
    """The extractors differ from those of the watermarks, so old and new sequences cannot be compared."""


class ConservationError(TidemarkError):
    """The classes of a load do not add up to the Bronze records it read. Nothing was written."""


class ModelError(TidemarkError):
    """One of the operator's SQL models failed. Gold's own tables are published; the next run retries the model."""


class StorageError(TidemarkError):
    """A disk with tables, checkpoints or Spark's files is full or denies access. The next run finishes the work."""


class ToolError(TidemarkError):
    """The machine lacks Java, a jar, a free port or another thing that Tidemark needs."""


def headline(text: str) -> str:
    r"""Return the line of a library's error that says what went wrong; for an error from py4j, Java's line.

    >>> headline("An error occurred while calling o1.collect.\n: java.io.IOException: No space left\n\tat ...")
    'java.io.IOException: No space left'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else ""
