"""Monitoring of a pipeline: metrics in a file or on a port, and alerts. Everything is off unless configured."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from lakehouse.settings.base import Model, Text, Whole, from_config_folder, is_uri, refusal
from lakehouse.settings.secrets import KEEP_SECRET, MASK_SECRET, MASKED, Secret, smells_of_secret

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LOGINS = ("auth", "cookie", "session")
_OPTION = re.compile(r"(-[up](?!=)|[^=\s]+(?==))=?(.+)", re.DOTALL)
"""An argument that holds an option and its value: --name=value, name=value, -uvalue."""
_PORTS = 65_535


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number, brackets that do not close
        is_url = False
    if not is_url or not text.isascii() or not text.isprintable() or " " in text:
        raise refusal(
            "this is no address that can be posted to",
            expected="a URL that begins with https:// or http://",
            next_step="Write it like https://hooks.example.org/tidemark, or ${env:NAME}, with all of it in the variable.",
        )
    return Secret.marked(text)  # anyone who knows the URL may post to it


def _header_name(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise refusal(
            "this is no name of a header", expected="letters, digits and hyphens", next_step="For example Authorization."
        )
    return name


def _header_value(value: str) -> str:
    if not value.isascii() or not value.isprintable() or value != value.strip():
        raise refusal(
            "this cannot stand in a header",
            expected="one line of ASCII, without spaces around it",
            next_step="Remove the line end or the other characters.",
        )
    return value


def _local_file(path: str, info: ValidationInfo) -> str:
    if is_uri(path):
        raise refusal(
            "this is no file of this machine",
            expected="a path",
            next_step="For example /var/lib/node_exporter/incidents.prom; relative ones start at the config file's folder.",
        )
    return from_config_folder(path, info)


LocalFile = Annotated[str, StringConstraints(min_length=1), AfterValidator(_local_file), KEEP_SECRET, MASK_SECRET]


class Webhook(Model):
    """An address that alerts are posted to, as JSON."""

    url: Annotated[str, StringConstraints(min_length=1), KEEP_SECRET, AfterValidator(_url), MASK_SECRET, MASKED] = Field(
        description="the address", examples=["${env:ALERT_URL}"]
    )
    headers: dict[
        Annotated[str, AfterValidator(_header_name)],
        Annotated[str, AfterValidator(_header_value), KEEP_SECRET, MASK_SECRET, MASKED],
    ] = Field(default={}, description="headers that go with it", examples=["{Authorization: 'Bearer ${env:ALERT_TOKEN}'}"])
    timeout_seconds: Whole = Field(default=10, description="how long an answer is waited for", examples=["10"])

    @field_validator("headers")
    @classmethod
    def _hide_logins(cls, headers: dict[str, str]) -> dict[str, str]:
        return {
            name: Secret(value) if not isinstance(value, Secret) and _tells_who(name) else value
            for name, value in headers.items()
        }


def _tells_who(name: str) -> bool:
    return smells_of_secret(name) or any(word in name.lower() for word in _LOGINS)


def _without_passwords(command: tuple[str, ...]) -> tuple[str, ...]:
    """Mark the arguments that hold a password: `--password=x`, `--password x`, `-u name:x`, `smtp-auth-password=x`.

    >>> _without_passwords(("curl", "-u", "ada:hunter2", "--pass=x", "-v", "mail:"))
    ('curl', '-u', '********', '********', '-v', 'mail:')
    """
    marked = list(command)
    for place, argument in enumerate(command):
        before = command[place - 1] if place and command[place - 1].startswith("-") else ""
        found = _OPTION.fullmatch(argument)
        for option, value in ((before, argument), (found[1], found[2]) if found else ("", "")):
            if option and not isinstance(argument, Secret) and _takes_password(option.lstrip("-"), value):
                marked[place] = Secret(argument, (value, value.partition(":")[2]))
    return tuple(marked)


def _takes_password(option: str, value: str) -> bool:
    return smells_of_secret(option) or (option in {"u", "user", "p"} and ":" in value)


class Alerts(Model):
    """Who is notified when the gate fails, the breaker opens or the lag passes a limit."""

    webhook: Webhook | None = Field(default=None, description="an address to post to", examples=["{url: '${env:ALERT_URL}'}"])
    mail_command: tuple[Annotated[Text, MASKED], ...] | None = Field(
        default=None,
        description="a program and its arguments, a list; gets the text on its standard input, no shell",
        examples=["[mail, -s, Tidemark, ops@example.org]"],
    )
    max_lag: Whole | None = Field(
        default=None, description="the most offsets that Silver may be behind Kafka in a partition", examples=["100000"]
    )

    @property
    def is_on(self) -> bool:
        """Whether alerts are sent anywhere."""
        return self.webhook is not None or self.mail_command is not None

    @field_validator("mail_command")
    @classmethod
    def _names_a_program(cls, command: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if command is not None and not command:
            raise refusal(
                "no program is named",
                expected="a program and its arguments",
                next_step="For example [sendmail, ops@example.org].",
            )
        return command and _without_passwords(command)

    @model_validator(mode="after")
    def _goes_somewhere(self) -> "Alerts":
        if self.max_lag is not None and not self.is_on:
            raise refusal(
                "a limit, and nobody to tell",
                expected="webhook or mail_command beside max_lag",
                next_step="Name one of them, or remove max_lag.",
                at=("max_lag",),
            )
        return self


class Watch(Model):
    """Metrics and alerts of the pipeline."""

    metrics_file: LocalFile | None = Field(
        default=None,
        description="a file that gets Prometheus' text format after each run; relative to the config file's folder",
        examples=["/var/lib/node_exporter/tidemark.prom"],
    )
    metrics_port: Annotated[int, Field(strict=True, ge=1, le=_PORTS)] | None = Field(
        default=None, description="the port on which `run --every` answers with the same", examples=["9464"]
    )
    metrics_host: Text = Field(default="127.0.0.1", description="the address of that port", examples=["10.0.0.5"])
    state_file: LocalFile | None = Field(
        default=None,
        description="a file that keeps what a run found for the next run; by default next to the tables",
        examples=["/var/lib/tidemark/incidents.json"],
    )
    alerts: Alerts = Field(default_factory=Alerts, description="who is alerted", examples=["{max_lag: 100000}"])

    @property
    def has_metrics(self) -> bool:
        """Whether there is a file or a port for metrics."""
        return self.metrics_file is not None or self.metrics_port is not None

    @property
    def is_on(self) -> bool:
        """Whether metrics or alerts are on."""
        return self.has_metrics or self.alerts.is_on
