"""The outer edge of every job: parse the command line, and turn any outcome into an exit code."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

from lakehouse.errors import TidemarkError, UsageError, headline
from lakehouse.escape import part_of_error, printable

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Report

INTERRUPTED, OUTPUT_CLOSED, TERMINATED = 130, 141, 143
_INTERRUPT_SECONDS = 10
_REPEAT_SECONDS = 0.1

_commands = functools.cache(typer.main.get_command)
# Base class of the command line parser's errors, whether typer bundles click or imports it.
_PARSER_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

known_secrets: set[str] = set()
"""Every secret that this process's configs resolved: the text of any error may hold one."""
_open_sessions: list[SparkSession] = []
"""Sessions that Ctrl-C and SIGTERM interrupt."""
_on_signal: list[Callable[[int, FrameType | None], None]] = []
"""The handler of the running action; empty in a process that handles signals itself."""


class Interrupted(BaseException):
    """Ctrl-C was pressed. Not a `KeyboardInterrupt`: py4j logs the traceback of that."""


class Terminated(BaseException):
    """SIGTERM arrived."""


_RAISED: dict[int, type[BaseException]] = {signal.SIGINT: Interrupted, signal.SIGTERM: Terminated}


def invoke(app: typer.Typer, argv: list[str] | None, *, program: str) -> int:
    """Run a command line, and return its exit code. Raises UsageError if it is wrong, KeyboardInterrupt after Ctrl-C."""
    try:
        code = int(_commands(app).main(args=argv, prog_name=program, standalone_mode=False) or 0)
    except _PARSER_ERROR as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else program
        text = error.format_message() if hasattr(error, "format_message") else str(error)
        raise UsageError(text, where=command, next_step=f"{command} --help") from None
    if code == INTERRUPTED:  # newer versions of typer return this after Ctrl-C, older ones raise Abort
        raise KeyboardInterrupt
    return code


def exit_code_of(action: Callable[[], int | None]) -> int:
    """Run an action and turn its outcome into an exit code: the one place where every exception ends.

    A `TidemarkError` prints its message on stderr, unless a run's report has done so, and gives its own code. Another
    exception prints its traceback and gives 1. Resolved secrets are masked. A closed stdout gives 141.
    """
    try:
        with _ending_on_signals():
            code = action() or 0
    except TidemarkError as error:
        code = error.exit_code if error.is_reported else _complain(f"tidemark: {error}", error.exit_code)
    except (Interrupted, KeyboardInterrupt, typer.Abort):
        code = _complain("tidemark: interrupted; the next run finishes what was begun.", INTERRUPTED)
    except Terminated:
        code = _complain("tidemark: terminated; the next run finishes what was begun.", TERMINATED)
    except BrokenPipeError:
        # The reader of stdout is gone (`| head`). Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OUTPUT_CLOSED
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:  # noqa: BLE001 -- the job's edge
        meaning = "The tables are as they were, or the next run finishes them."
        # Scrubbed before it is escaped: a secret that holds a line end would not be found afterwards.
        text = part_of_error(scrub_text(traceback.format_exc()))
        code = _complain(f"{text}\ntidemark: unexpected {type(error).__name__}. {meaning}", 1)
    return code


@contextlib.contextmanager
def best_effort(report: Report, name: str) -> Iterator[None]:
    """Keep a side task, such as `watch.metrics`, from failing the run: report its exception as `<name>_failed`."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 -- the job's edge
        cause = error.__cause__ or error
        report.event(f"{name}_failed", error=type(cause).__name__, why=headline(str(cause)))


def scrub_text(text: str) -> str:
    """Mask every secret that this process has resolved."""
    from lakehouse.run.reporting import scrubber

    return str(scrubber(known_secrets)(text))


@contextlib.contextmanager
def errors_scrubbed() -> Iterator[None]:
    """Mask every resolved secret in an error of the block; another error than ours becomes a TidemarkError then."""
    try:
        yield
    except Exception as error:
        text = traceback.format_exc()
        if scrub_text(text) == text:
            raise
        if not isinstance(error, TidemarkError):
            error = TidemarkError(f"Unexpected {type(error).__name__}.", observed=scrub_text(str(error)))
        error.args = tuple(scrub_text(str(part)) for part in error.args)
        for name, part in vars(error).items():
            if isinstance(part, str):
                setattr(error, name, scrub_text(part))
        raise error from None


def end_with_process(spark: SparkSession) -> None:
    """Interrupt a session's work when Ctrl-C or SIGTERM ends the process."""
    _open_sessions.append(spark)
    if _on_signal:  # Spark has replaced the handler by one that calls the JVM in the middle of a call
        signal.signal(signal.SIGINT, _on_signal[-1])


def _interrupt(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # the session may be gone already; the process is ending anyway
        spark.interruptAll()


def _complain(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        # Its line ends are ours: our errors, and a traceback above, have escaped those of others.
        sys.stderr.write(printable(scrub_text(text), keeps="\n").rstrip("\n") + "\n")
        sys.stderr.flush()
    return code


@contextlib.contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Make Ctrl-C raise `Interrupted` and SIGTERM `Terminated`, so that locks are released and a demo's broker ends."""
    ending: list[type[BaseException]] = []

    def end(number: int, _frame: FrameType | None) -> None:
        ending.append(_RAISED[number])
        for spark in _open_sessions:
            # Otherwise the JVM would run its job until it notices that Python is gone, past the release of the root's lock.
            # A new thread has its own connection to the JVM; this thread's is in the middle of a call.
            interrupting = threading.Thread(target=_interrupt, args=(spark,), daemon=True)
            interrupting.start()
            interrupting.join(_INTERRUPT_SECONDS)
        raise ending[-1]

    def repeat(ignored: sys.UnraisableHookArgs) -> None:
        # Python ignores an exception in a finalizer or its garbage collector: send the signal again.
        number = next((each for each, raised in _RAISED.items() if ignored.exc_type is raised), None)
        if number is None:
            former_hook(ignored)
            return
        again = threading.Timer(_REPEAT_SECONDS, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    former_hook = sys.unraisablehook
    try:
        former = {number: signal.signal(number, end) for number in _RAISED}
    except ValueError:  # not the main thread (a notebook): its host handles signals
        yield
        return
    _on_signal.append(end)
    sys.unraisablehook = repeat
    try:
        yield
    except Exception as error:
        if ending:  # a `finally` on the way out called the JVM, and read the reply to the interrupted call
            raise ending[-1] from error
        raise
    finally:
        _on_signal.pop()
        for number, handler in former.items():
            signal.signal(number, handler)
        sys.unraisablehook = former_hook
