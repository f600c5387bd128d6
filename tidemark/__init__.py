"""Tidemark in Python: Kafka topics to exactly-once Bronze, Silver and Gold Delta tables.

Each function is the command of its name: `run`, `plan`, `status`, `why`, `quarantine`, `quarantine_release`,
`quarantine_discard`, `verify` and `sql`. It takes a config, as a file or a mapping, returns a frozen data class of
`tidemark.answers` (or an Arrow table), and raises one of the errors below. This package is the only one to import: the
others may change from version to version. Importing it loads neither Spark nor Great Expectations. See docs/python.md.
"""

from tidemark import own_packages

own_packages.find_own()

from lakehouse import __version__  # noqa: E402 -- our packages cannot be found before
from lakehouse.errors import (  # noqa: E402 -- as above
    AnotherWriterError,
    BatchCorruptError,
    BreakerOpenError,
    ClaimStuckError,
    ConfigError,
    ConservationError,
    ContractError,
    GateFailedError,
    ModelError,
    OffsetsExpiredError,
    RegistryError,
    RulesChangedError,
    SourceError,
    StorageError,
    TableMissingError,
    TableStateError,
    TidemarkError,
    ToolError,
    TopicRecreatedError,
    TopicsSkippedError,
    UndoneError,
    UsageError,
)
from tidemark.answers import Fate, Plan, Quarantine, RunResult, Settled, Status, Verification  # noqa: E402 -- as above
from tidemark.api import NotSoundError, plan, quarantine, quarantine_discard, quarantine_release, run, sql, status, verify, why  # noqa: E402 -- as above
from tidemark.own_packages import ForeignPackageError  # noqa: E402 -- as above

__all__ = ["plan", "quarantine", "quarantine_discard", "quarantine_release", "run", "sql", "status", "verify", "why"]
__all__ += ["Fate", "Plan", "Quarantine", "RunResult", "Settled", "Status", "Verification", "__version__"]
__all__ += [
    "AnotherWriterError",
    "BatchCorruptError",
    "BreakerOpenError",
    "ClaimStuckError",
    "ConfigError",
    "ConservationError",
]
__all__ += ["ContractError", "ForeignPackageError", "GateFailedError", "ModelError", "NotSoundError", "OffsetsExpiredError"]
__all__ += ["RegistryError", "RulesChangedError", "SourceError", "StorageError", "TableMissingError", "TableStateError"]
__all__ += ["TidemarkError", "ToolError", "TopicRecreatedError", "TopicsSkippedError", "UndoneError", "UsageError"]
