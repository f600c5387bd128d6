"""How alerts are sent: by POST to a webhook, and as text to a program such as a mailer."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from lakehouse.escape import printable

if TYPE_CHECKING:
    from lakehouse.settings.watch import Webhook
    from tidemark.extras.watch.alerts import Alert

_TRIES_AGAIN = 2
_BUSY = (429, 500, 502, 503, 504)
_TAKEN = 2
"""First digit of the HTTP statuses of success."""
_PROGRAM_SECONDS = 30
_SHOWN_OUTPUT = 200


class NotSentError(Exception):
    """An alert was not delivered. The text has neither address nor headers, which may hold a secret."""


def post(alert: Alert, webhook: Webhook) -> None:
    """Post an alert as JSON, with two retries if the receiver is busy or does not answer; NotSentError if that fails."""
    # Retry-After is ignored: a receiver may name tomorrow, and a run waits for seconds only.
    retry = Retry(
        _TRIES_AGAIN,
        backoff_factor=0.5,
        status_forcelist=_BUSY,
        allowed_methods={"POST"},
        raise_on_status=False,
        respect_retry_after_header=False,
    )
    body = {**asdict(alert), "text": printable(f"{alert.pipeline}: {alert.text}"), "details": _lines(alert.details)}
    with _unlogged(), requests.Session() as session:
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        try:
            with session.post(
                str(webhook.url),
                json=body | {"at": alert.at.isoformat()},
                headers={name: str(value) for name, value in webhook.headers.items()},
                timeout=webhook.timeout_seconds,
                allow_redirects=False,  # the headers are for this address and no other
                stream=True,  # the answer's body is not wanted, however long
            ) as answer:
                status = answer.status_code
        except requests.RequestException as error:
            raise NotSentError(_why(error, webhook)) from None  # its text and its context hold the address
    if status // 100 != _TAKEN:
        raise NotSentError(f"HTTP status {status}")


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Keep the HTTP library from logging the address at every attempt."""
    logger = logging.getLogger("urllib3")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _why(error: requests.RequestException, webhook: Webhook) -> str:
    # After retries it is a ConnectionError, with the last failure nested in it.
    text = str(error)
    if isinstance(error, requests.Timeout) or "timed out" in text:
        return f"no answer within {webhook.timeout_seconds} s"
    if isinstance(error, requests.exceptions.SSLError):
        return "the certificate is not trusted, or the connection is not encrypted as it should be"
    return "cannot connect" if isinstance(error, requests.ConnectionError) else type(error).__name__


def run_program(alert: Alert, command: Sequence[str]) -> None:
    """Run a program with an alert as text on its standard input, without a shell.

    Raises:
        NotSentError: The program cannot be started, fails, or does not end within half a minute.
    """
    lines = [
        printable(f"{alert.pipeline}: {alert.text}"),
        "",
        *([_lines(alert.details), ""] if alert.details else []),
        f"alert {alert.alert}; {alert.at:%Y-%m-%d %H:%M:%S} UTC; run {alert.run_id}",
    ]
    # Into a file: a pipe would stay open for as long as any child of a killed program holds it.
    with tempfile.TemporaryFile() as output:
        try:
            done = subprocess.run(
                [str(part) for part in command],
                input="\n".join(lines) + "\n",
                encoding="utf-8",
                stdout=output,
                stderr=output,
                timeout=_PROGRAM_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotSentError(f"the program had not ended after {_PROGRAM_SECONDS} s, and was killed") from None
        except OSError as error:
            raise NotSentError(f"the program cannot be started: {error.strerror}") from None
        if done.returncode:
            output.seek(0)
            said = printable(output.read(_SHOWN_OUTPUT).decode(errors="replace").strip())
            raise NotSentError(f"the program ended with {done.returncode}" + (f": {said}" if said else ""))


def _lines(text: str) -> str:
    """Indent each line and make it printable, so that neither a mailer nor a terminal takes it as a command."""
    return "\n".join(f"  {printable(line.strip())}" for line in text.splitlines())
