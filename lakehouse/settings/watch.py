"""Monitoring of a pipeline: metrics in a file or on a port, and alerts. All is off by default."""

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from lakehouse.settings.base import Model, SettingError, Text, Whole, from_config_folder, setting
from lakehouse.settings.secrets import HIDES_SECRETS, MASKED, Secret, smells_of_secret
from lakehouse.uri import is_uri

_OPTION = re.compile(r"(-[up](?!=)|[^=\s]+(?==))=?(.+)", re.DOTALL)
"""An argument that holds an option and its value: --name=value, name=value, -uvalue."""


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number, brackets that do not close
        is_url = False
    if not is_url or not text.isascii() or not text.isprintable() or " " in text:
        next_step = "Write it like https://hooks.example.org/tidemark, or ${env:NAME} with the whole URL in the variable."
        raise SettingError("this is no URL that can be posted to", "a URL with https:// or http://", next_step)
    return Secret(text)  # anyone who knows the URL may post to it


def _resolve_file(path: str, info: ValidationInfo) -> str:
    if is_uri(path):
        expected = "a path; a relative one starts at the config file's folder"
        raise SettingError("this is no local file", expected, "For example /var/lib/node_exporter/incidents.prom.")
    return from_config_folder(path, info)


LocalFile = Annotated[str, StringConstraints(min_length=1), AfterValidator(_resolve_file), HIDES_SECRETS]


class Webhook(Model):
    """An address that alerts are posted to, as JSON."""

    url: Annotated[Text, AfterValidator(_check_url), MASKED] = setting(..., "the address", "${env:ALERT_URL}")
    headers: dict[str, Annotated[str, HIDES_SECRETS, MASKED]] = setting({}, "its headers", "{Authorization: '${env:AUTH}'}")
    timeout_seconds: Whole = setting(10, "how long an answer is waited for", "10")

    @field_validator("headers")
    @classmethod
    def _check_and_hide(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
                example = "For example Authorization."
                raise SettingError("this is no name of a header", "letters, digits and hyphens", example, at=(name,))
            if not re.fullmatch(r"([!-~]([ -~]*[!-~])?)?", value):
                expected = "one trimmed line of ASCII"
                raise SettingError("this is no value of a header", expected, "Remove the line end.", at=(name,))
        is_login = {name: re.search("auth|cookie|session", name.lower()) or smells_of_secret(name) for name in headers}
        return {name: Secret(value) if is_login[name] else value for name, value in headers.items()}


def _mark_passwords(command: tuple[str, ...]) -> tuple[str, ...]:
    """Mark arguments with a password as secret: `--password=x`, `--password x`, `-u name:x`, `smtp-auth-password=x`."""
    marked = list(command)
    for place, argument in enumerate(command):
        before = command[place - 1] if place and command[place - 1].startswith("-") else ""
        found = _OPTION.fullmatch(argument)
        for option, value in ((before, argument), (found[1], found[2]) if found else ("", "")):
            name = option.lstrip("-")
            takes_password = smells_of_secret(name) or (name in {"u", "user", "p"} and ":" in value)
            if takes_password and not isinstance(argument, Secret):
                marked[place] = Secret(argument, (value, value.partition(":")[2]))
    return tuple(marked)


class Alerts(Model):
    """Where alerts go when the gate fails, the breaker opens or the lag exceeds a limit."""

    webhook: Webhook | None = setting(None, "an address to post to", "{url: '${env:ALERT_URL}'}")
    mail_command: tuple[Annotated[Text, MASKED], ...] | None = setting(
        None, "a program and its arguments; it reads standard input", "[mail, -s, Tidemark, a@example.org]"
    )
    max_lag: Whole | None = setting(None, "the most offsets that Silver may be behind Kafka in a partition", "100000")

    @property
    def is_on(self) -> bool:
        """Whether alerts are sent anywhere."""
        return self.webhook is not None or self.mail_command is not None

    @field_validator("mail_command")
    @classmethod
    def _require_program(cls, command: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if command == ():
            raise SettingError("no program is named", "a program and its arguments", "For example [sendmail, ops@example.org].")
        return command and _mark_passwords(command)

    @model_validator(mode="after")
    def _require_receiver(self) -> Self:
        if self.max_lag is not None and not self.is_on:
            next_step = "Name one of them, or remove max_lag."
            raise SettingError("max_lag has no receiver", "webhook or mail_command", next_step, at=("max_lag",))
        return self


class Watch(Model):
    """Metrics and alerts of the pipeline."""

    metrics_file: LocalFile | None = setting(None, "a file for Prometheus' agent", "/var/lib/node_exporter/tidemark.prom")
    metrics_port: Annotated[int, Field(strict=True, ge=1, le=65_535)] | None = setting(None, "the port for metrics", "9464")
    metrics_host: Text = setting("127.0.0.1", "the address of that port", "10.0.0.5")
    state_file: LocalFile | None = setting(None, "a file kept for the next run", "/var/lib/tidemark/incidents.json")
    alerts: Alerts = setting(Alerts, "who is alerted", "{max_lag: 100000}")

    @property
    def has_metrics(self) -> bool:
        """Whether there is a file or a port for metrics."""
        return self.metrics_file is not None or self.metrics_port is not None

    @property
    def is_on(self) -> bool:
        """Whether metrics or alerts are on."""
        return self.has_metrics or self.alerts.is_on
