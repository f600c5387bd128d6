"""Numbers for what a Kafka producer sends, so that a reader recognises each resend. The entry is `Sender`."""

from tidemark_producer.accepted import last_accepted
from tidemark_producer.errors import (
    Exhausted,
    Forked,
    InUse,
    OutOfOrder,
    ProducerError,
    StateLost,
    Stopped,
    UnsafeSetting,
)
from tidemark_producer.numbering import Counter, Given, Numbers
from tidemark_producer.records import Headers, Position, Sent
from tidemark_producer.sender import Sender
from tidemark_producer.stores import FileStore, SqlStore, Store

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
