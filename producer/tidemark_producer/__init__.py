"""Numbers for what a Kafka producer sends, so that a reader recognises each resend. The entry is `Sender`."""

from tidemark_producer.accepted import last_accepted
from tidemark_producer.numbering import Counter, FileStore, Given, Numbers, SqlStore, Store
from tidemark_producer.records import (
    Exhausted,
    Forked,
    Headers,
    InUse,
    OutOfOrder,
    Position,
    ProducerError,
    Sent,
    StateLost,
    Stopped,
    UnsafeSetting,
)
from tidemark_producer.sender import Sender

__version__ = "0.1.0"

__all__ = [
    "Counter",
    "Exhausted",
    "FileStore",
    "Forked",
    "Given",
    "Headers",
    "InUse",
    "Numbers",
    "OutOfOrder",
    "Position",
    "ProducerError",
    "Sender",
    "Sent",
    "SqlStore",
    "StateLost",
    "Stopped",
    "Store",
    "UnsafeSetting",
    "last_accepted",
]
