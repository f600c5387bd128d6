"""The edge of every job: a command line parsed, and an exit code from whatever happened."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lakehouse.errors import TidemarkError, UsageError, headline
from lakehouse.escape import printable

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

    from lakehouse.run.context import Report

INTERRUPTED = 130
TERMINATED = 143
OUTPUT_CLOSED = 141

_INTERRUPT_SECONDS = 10

# The base of every error of the command line's parser, whether typer brings its own click or imports one.
_PARSER_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

known_secrets: set[str] = set()
"""Every secret that a config of this process resolved: an error's text may hold one, wherever the error came from."""

open_sessions: list[SparkSession] = []
"""The sessions whose work SIGTERM interrupts."""


class Terminated(BaseException):
    """SIGTERM arrived."""


def invoke(app: typer.Typer, argv: list[str] | None, *, program: str) -> int:
    """Run a command line, without typer's own way of ending the process.

    Raises:
        UsageError: There is no such command or option, or a value does not fit it.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    try:
        code = int(typer.main.get_command(app).main(args=argv, prog_name=program, standalone_mode=False) or 0)
    except _PARSER_ERROR as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else program
        text = error.format_message() if hasattr(error, "format_message") else str(error)
        raise UsageError(text, where=command, next_step=f"{command} --help") from None
    if code == INTERRUPTED:  # newer typers turn Ctrl-C into this number, older ones into an Abort
        raise KeyboardInterrupt
    return code


def exit_code_of(action: Callable[[], int | None]) -> int:
    """Do something and turn what happens into an exit code: the one place where any exception ends.

    A `TidemarkError` prints its message on stderr, without a traceback; anything unexpected its traceback, and a line on what
    it means. No secret that this process has resolved is printed.

    Returns:
        0, or the error's own code; 1 for an unexpected exception; 130 after Ctrl-C, 143 after SIGTERM, 141 where stdout closed.
    """
    try:
        with _ending_on_sigterm():
            code = action() or 0
    except TidemarkError as error:
        code = _complain(f"tidemark: {error}", error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = _complain("tidemark: interrupted; the next run finishes what was begun.", INTERRUPTED)
    except Terminated:
        code = _complain("tidemark: terminated; the next run finishes what was begun.", TERMINATED)
    except BrokenPipeError:
        # Whoever read stdout has gone (`| head`). Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OUTPUT_CLOSED
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception as error:  # noqa: BLE001 -- the job's edge
        meaning = "The tables are as they were, or the next run finishes them."
        code = _complain(f"{traceback.format_exc()}\ntidemark: unexpected {type(error).__name__}. {meaning}", 1)
    return code


@contextlib.contextmanager
def best_effort(report: Report, name: str) -> Iterator[None]:
    """Do something that a run must not fail by: what happens to it is the event `<name>_failed`, and a run goes on.

    Args:
        report: Whom to tell.
        name: What is done, for example `watch.metrics`.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 -- the job's edge
        report.event(f"{name}_failed", error=type(error).__name__, why=headline(str(error)))


def is_console_script() -> bool:
    """Whether this process is one of our console scripts: its main module is the file that was called.

    What an installer makes of an entry point is `sys.exit(main())`. A wheel task calls the same function in a process of the
    platform's, whose main module is another.
    """
    main = getattr(sys.modules["__main__"], "__file__", None)
    return main is not None and Path(main).stem.startswith("tidemark-")


def scrub_text(text: str) -> str:
    """The text without any secret that this process has resolved."""
    from lakehouse.run.reporting import scrubber

    return str(scrubber(known_secrets)(text))


def _interrupt(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # it may be gone, as the process will be
        spark.interruptAll()


def _complain(text: str, code: int) -> int:
    with contextlib.suppress(OSError):
        # A traceback may hold what a producer sent; an error of ours has escaped its parts itself.
        sys.stderr.write(printable(scrub_text(text), keeps="\n").rstrip("\n") + "\n")
        sys.stderr.flush()
    return code


@contextlib.contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """SIGTERM raises `Terminated` here, so that locks are released and a demo's broker ends; by default it ends the process."""
    ending = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ending.set()
        for spark in open_sessions:
            # The JVM would go on with its job until it sees that its Python is gone: past the release of the root's lock.
            # From a thread, which has a connection to the JVM of its own: this one's is in the middle of a call.
            interrupting = threading.Thread(target=_interrupt, args=(spark,), daemon=True)
            interrupting.start()
            interrupting.join(_INTERRUPT_SECONDS)
        raise Terminated

    try:
        former = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread (a notebook): signals are another's business
        yield
        return
    try:
        yield
    except Exception as error:
        if ending.is_set():  # a `finally` on the way out asked the JVM, and read the answer to the call that was cut short
            raise Terminated from error
        raise
    finally:
        signal.signal(signal.SIGTERM, former)
