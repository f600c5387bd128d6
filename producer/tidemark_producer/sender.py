"""Sends records under rising numbers, in order, and says which of them Kafka has."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from tidemark_producer.records import Failure, Forked, Headers, InUse, Position, ProducerError, Sent, Stopped, name_bytes
from tidemark_producer.settings import checked, drawn_keys

if TYPE_CHECKING:
    from types import TracebackType

    from confluent_kafka import Message

    from tidemark_producer.numbering import Numbers

    Header = tuple[str, bytes | str | None]

_POLL_SECONDS = 0.02
_PLACE_SECONDS = 0.02
_DRAIN_SECONDS = 10
_LAST_WAIT_SECONDS = 10
_CONSEQUENCES = {"_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL", "_GAPLESS_GUARANTEE"}
"""The client's errors for a record that it drops because another one was refused."""
_OUT_OF_STEP = {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"}
"""The broker's errors if a leader lacks earlier records, as after an unclean election: no record is to blame."""
_FENCED = {"_FENCED", "INVALID_PRODUCER_EPOCH"}
_OVERTAKEN = "Another sender with this transactional.id has started. It goes on; this one has to end."
_FIRST = Position(0, 0)


class _Delivery(Future[Sent]):
    """A future that cannot be cancelled: its record is on its way."""

    def cancel(self) -> bool:
        return False


@dataclass(eq=False, slots=True)
class _Record:
    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None
    timestamp: int
    headers: list[Header]
    position: Position = _FIRST
    before: Position | None = None
    future: Future[Sent] = field(default_factory=_Delivery)
    refused: str | None = None
    is_suspect: bool = False
    sent: Sent | None = None


class Sender:
    """Numbers the records of one producer and sends them in order. Threads may share it, processes may not.

    No number is given out twice. In each partition numbers rise in the order of sending, whatever the client repeats. After a
    delivery that failed, nothing is delivered until `recover`. `config` holds librdkafka's settings; those that keep order are
    set. No other sender may have the same `name` at a time.

    Raises:
        UnsafeSetting: A setting breaks a guarantee.
        InUse: Another sender has the name.
        StateLost: The numbers' store lost its state.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        name: str,
        numbers: Numbers,
        *,
        headers: Headers | None = None,
        factory: Callable[[dict[str, Any]], Producer] = Producer,
    ) -> None:
        self._config, self._name, self._numbers, self._factory = checked(config), name_bytes(name), numbers, factory
        self._headers = headers or Headers()
        self._is_transactional = "transactional.id" in self._config
        self._refused_keys = drawn_keys(self._config) if numbers.are_given else ()
        self._process = os.getpid()
        # `with` takes the lock itself: a signal while Python enters the condition would leave it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        # Records that Kafka has not acknowledged, in the order of sending; of a transaction all. The client has some or all.
        self._open: OrderedDict[_Record, None] = OrderedDict()
        self._in_client: set[_Record] = set()
        self._committed: Position | None = None
        self._trouble: list[str] = []
        self._stopped: Stopped | None = None
        self._is_failing = self._is_recovering = self._is_fenced = self._is_closed = False
        self._client, self._thread = self._start()
        try:
            if self._is_transactional:
                self._client.init_transactions()
            numbers.open(name, is_alone=self._is_transactional)
        except BaseException:
            self._end()
            raise

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        *,
        partition: int | None = None,
        headers: Mapping[str, bytes | str | None] | Iterable[Header] = (),
        timestamp: int = 0,
        sequence: int | None = None,
        timeout: float | None = None,
    ) -> Future[Sent]:
        """Give a record its number, and hand it to the client. Waits up to `timeout` seconds while its queue is full.

        Text is sent as UTF-8. Without a partition the partitioner chooses by the key. `timestamp` is milliseconds since 1970,
        or 0 for now. `sequence` goes with `Given` only.

        Returns:
            Where the record is, once all replicas in sync have it (in a transaction: once that is committed), or `Stopped`. It
            cannot be cancelled. For asyncio: `asyncio.wrap_future`.

        Raises:
            Stopped: A delivery failed before.
            OutOfOrder: The given sequence does not rise.
            Exhausted: There are no more numbers.
            InUse: Another sender has taken over.
            TimeoutError: The queue stayed full.
            KafkaException: The client refuses the record, for example as too large. No number is used up.
        """
        self._check_process()
        record = _Record(topic, _bytes(value), _bytes(key), partition, timestamp, self._checked(headers))
        if partition is None and record.key in self._refused_keys:
            raise ValueError(
                "Without a key and a partition the partition is drawn by chance. Sent again by the next process, the record "
                "gets into another one, where nobody knows it: give it one of the two, or set partitioner=murmur2."
            )
        until = _until(timeout)
        with self._lock:
            while True:
                self._check_running(until)
                record.before, record.position = self._numbers.last, self._numbers.next(sequence)
                if self._numbers.has(record.position, topic, partition):
                    self._numbers.last = record.position
                    record.future.set_result(Sent(topic, partition or 0, None, *record.position))
                    return record.future
                # Next to each other, and before the record is sent: a signal may waste a number, but gives none out twice.
                self._open[record] = None
                self._numbers.last = record.position
                try:
                    self._produce(record)
                except (BufferError, KafkaException, TypeError, ValueError, OverflowError) as error:
                    del self._open[record]
                    self._numbers.last = record.before
                    self._after_refusal(error, until)
                else:
                    return record.future

    @property
    def acknowledged(self) -> Position | None:
        """The position up to which Kafka has all records but those given up; in transactions, the last committed one."""
        with self._lock:
            if self._is_transactional:
                return self._committed
            first = next(iter(self._open), None)
            return self._numbers.last if first is None else first.before

    def flush(self, timeout: float | None = None) -> None:
        """Wait until Kafka has every record that was sent; raise a `Stopped`, or a `TimeoutError` that drops no record."""
        self._check_process()
        until = _until(timeout)
        with self._lock:
            while self._in_client or self._is_failing or self._is_recovering:
                self._check_running(until)
                if self._in_client:
                    self._wait(until)

    def recover(self, without: Collection[Position] = (), *, timeout: float | None = None) -> list[Sent]:
        """After `Stopped`: send all open records again by a new client, in the same order and under the same numbers.

        Refused records now go one by one, so a `Stopped` from here names only the bad ones. Correct what refuses them, or give
        them up in `without`, which leaves gaps. Returns where each resent record is; empty if nothing had failed.

        Raises:
            Stopped: A record was refused again.
            ValueError: A number in `without` is not open.
            TimeoutError: It took longer. Call it again.
        """
        self._check_process()
        until = _until(timeout)
        with self._lock:
            while self._is_recovering or (self._is_failing and self._stopped is None):
                self._wait(until)
            if self._stopped is None or self._is_closed or self._is_fenced:
                self._check_running(until)
                return []
            unknown = set(without) - {record.position for record in self._open}
            if unknown:
                raise ValueError(f"Not open: {sorted(unknown)[:5]}.")
            for record in [record for record in self._open if record.position in without]:
                del self._open[record]
            again = list(self._open)
            self._is_recovering = True
            try:
                while not self._has_sent_again(until):
                    pass
            except BaseException:
                self._is_failing = True
                raise
            finally:
                self._is_recovering = False
                self._changed.notify_all()
        return [record.sent for record in again if record.sent is not None]

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Send in a transaction, which is committed at the end. With a `transactional.id` only, and from one thread.

        An error aborts it: its futures raise `Stopped`. A counter's numbers stay used up; those of `Given` may be sent again.

        Raises:
            Stopped: A record was refused. The transaction is aborted.
            InUse: Another sender with this `transactional.id` has started.
            KafkaException: Kafka refuses the commit. The transaction is aborted.
        """
        self._check_process()
        with self._lock:
            self._check_running(None)
            before = self._numbers.last
        with self._fencing():
            self._client.begin_transaction()
        try:
            yield
            self.flush()
            with self._fencing():
                _retried(self._client.commit_transaction)
        except BaseException:
            self._abort(before)
            raise
        with self._lock:
            records, self._open = list(self._open), OrderedDict()
            self._committed = records[-1].position if records else self._committed
        for record in records:
            if record.sent is not None:
                record.future.set_result(record.sent)

    def close(self, timeout: float | None = None) -> None:
        """Wait until Kafka has all records, unless a delivery failed, and end, also if this raises.

        Raises:
            Stopped: A delivery failed. Its record is still open: it may be in Kafka or not.
            InUse: Another sender has taken over, and records are still open.
            TimeoutError: It took longer.
        """
        if self._process != os.getpid() or self._is_closed:
            return
        try:
            self.flush(timeout)
        except (Stopped, InUse):
            if self._open:
                raise
        finally:
            self._end()
            self._numbers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(ProducerError, TimeoutError):
                self.close(_LAST_WAIT_SECONDS)

    def _checked(self, headers: Mapping[str, bytes | str | None] | Iterable[Header]) -> list[Header]:
        pairs = [*headers.items()] if hasattr(headers, "items") else [*headers]
        for name, _ in pairs:
            if name in self._headers.names:
                raise ValueError(f"The header {name!r} is the kit's own. Name its headers differently, by `Headers`.")
            if "\0" in name:
                raise ValueError(f"Kafka's client ends a header's name at its first zero: {name!r}.")
        return pairs

    def _start(self) -> tuple[Producer, threading.Thread]:
        """Start a client and the one thread that serves its callbacks. With two a fatal error may reach the wrong one."""
        client = self._factory(dict(self._config))
        thread = threading.Thread(target=self._serve, args=(client,), name="tidemark-producer", daemon=True)
        thread.start()
        return client, thread

    def _serve(self, client: Producer) -> None:
        while not self._is_closed and (self._is_transactional or not self._is_failing):
            self._poll(client)
        client.purge()
        until = time.monotonic() + _DRAIN_SECONDS
        while self._in_client and time.monotonic() < until:
            self._poll(client)
        with self._lock:
            self._in_client.clear()
            self._stopped = stopped = self._as_stopped()
            futures = [record.future for record in self._open]
            self._changed.notify_all()
        for future in futures:
            future.set_exception(stopped)

    def _poll(self, client: Producer) -> None:
        try:
            client.poll(_POLL_SECONDS)
        except Exception as error:  # noqa: BLE001 -- the client's fatal one, or a callback's of the caller
            with self._lock:
                self._is_failing = True
                self._trouble.append(str(error))
                self._note(error)
                self._changed.notify_all()

    def _produce(self, record: _Record) -> None:
        self._client.produce(
            record.topic,
            record.value,
            record.key,
            -1 if record.partition is None else record.partition,
            on_delivery=partial(self._delivered, record),
            headers=[*record.headers, *self._headers.of(self._name, record.position)],
            timestamp=record.timestamp,
        )
        self._in_client.add(record)

    def _delivered(self, record: _Record, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        with self._lock:
            self._in_client.discard(record)
            if partition is not None and partition >= 0:
                record.partition = partition  # a resend must not be drawn into another one
            if error is None:
                record.sent = Sent(record.topic, partition or 0, message.offset(), *record.position)
                if not self._is_transactional:
                    self._open.pop(record, None)
            else:
                self._is_failing = True
                self._is_fenced |= self._is_transactional and error.name() in _FENCED
                reason = f"{error.name()}: {error.str()}"
                if error.name() in _OUT_OF_STEP and reason not in self._trouble:
                    self._trouble.append(reason)
                record.refused = None if error.name() in _CONSEQUENCES | _OUT_OF_STEP else reason
            if error is not None or not self._in_client:  # not at each record: two threads in turns are ten times as slow
                self._changed.notify_all()
        if record.sent is not None and not self._is_transactional:
            record.future.set_result(record.sent)

    def _has_sent_again(self, until: float | None) -> bool:
        """Send all open records by a new client; return False if records were refused that did not go alone."""
        records = list(self._open)
        for record in records:
            record.is_suspect |= record.refused is not None
            record.future, record.refused = _Delivery(), None
        self._stopped, self._trouble, self._is_failing = None, [], False
        self._client, self._thread = self._start()
        try:
            for record in records:
                self._send_again(record, until)
            self._wait_for_client(until)
        except Stopped:
            if all(record.is_suspect for record in records if record.refused is not None):
                raise
            return False
        return True

    def _send_again(self, record: _Record, until: float | None) -> None:
        if record.is_suspect:
            self._wait_for_client(until)
        while True:
            self._check_running(until, is_recovering=True)
            try:
                self._produce(record)
            except (BufferError, KafkaException) as error:
                self._after_refusal(error, until)
            else:
                break
        if record.is_suspect:
            self._wait_for_client(until)

    def _after_refusal(self, error: Exception, until: float | None) -> None:
        """Handle the client's own refusal: wait for room in its queue, stop, or raise it."""
        if isinstance(error, BufferError):
            had_room = not self._in_client
            self._changed.wait(_PLACE_SECONDS)
            if (had_room and not self._in_client) or threading.current_thread() is self._thread:
                raise error  # a record that does not fit into an empty queue, or a callback, which nobody makes room for
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"No place in the client's queue: {len(self._open)} records are not acknowledged yet.")
        elif isinstance(error, KafkaException) and (error.args[0].fatal() or error.args[0].name() in _CONSEQUENCES):
            self._is_failing = True
            self._note(error)
        else:
            raise error

    def _wait_for_client(self, until: float | None) -> None:
        while self._in_client or self._is_failing:
            self._check_running(until, is_recovering=True)
            self._wait(until)

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise Forked("The sender belongs to the process that made it. Make one in this process, under a name of its own.")

    def _check_running(self, until: float | None, *, is_recovering: bool = False) -> None:
        """Return if records may be sent; raise otherwise. Waits while the client ends, or another thread recovers."""
        while True:
            if self._is_closed:
                raise Stopped("The sender is closed.")
            if self._is_fenced:
                raise InUse(_OVERTAKEN)
            if self._is_failing and self._is_transactional:
                raise self._as_stopped()
            if is_recovering or not self._is_recovering:
                if self._stopped is not None:
                    raise copy.copy(self._stopped)
                if not self._is_failing:
                    return
            self._wait(until)

    def _wait(self, until: float | None) -> None:
        """Wait until something has happened, without the lock."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("A callback cannot wait: it is run by the thread that it would wait for.")
        left = None if until is None else until - time.monotonic()
        if (left is not None and left <= 0) or not self._changed.wait(left):
            raise TimeoutError(f"{len(self._open)} records are not acknowledged yet.")

    def _as_stopped(self) -> Stopped:
        failures = [
            Failure(record.position, record.topic, record.partition, record.refused) for record in self._open if record.refused
        ]
        what = "A delivery failed; nothing is sent until `recover`."
        if self._is_closed:
            what = "The sender was closed."
        elif self._is_transactional:
            what = "The transaction cannot be committed: abort it, and run it again."
        return Stopped(" ".join([what, *self._trouble]), failures, [record.position for record in self._open])

    def _abort(self, before: Position | None) -> None:
        try:
            if not self._is_fenced:
                with self._fencing():
                    _retried(self._client.abort_transaction)
        finally:
            with self._lock:
                if not self._is_fenced:  # what the client still says of these records is nothing to the next transaction
                    self._changed.wait_for(lambda: not self._in_client, _DRAIN_SECONDS)
                records, self._open = list(self._open), OrderedDict()
                self._is_failing, self._trouble = False, []
                if self._numbers.are_given:
                    self._numbers.last = before
            for record in records:
                record.future.set_exception(Stopped("The transaction was aborted."))

    @contextlib.contextmanager
    def _fencing(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            self._note(error)
            if self._is_fenced:
                raise InUse(_OVERTAKEN) from error
            raise

    def _note(self, error: Exception) -> None:
        if isinstance(error, KafkaException) and self._is_transactional:
            self._is_fenced |= error.args[0].name() in _FENCED

    def _end(self) -> None:
        self._is_closed = True
        if threading.current_thread() is not self._thread:
            self._thread.join()
        del self._client


def _until(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


def _bytes(given: bytes | str | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given


def _retried(act: Callable[[], None]) -> None:
    while True:
        try:
            return act()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
