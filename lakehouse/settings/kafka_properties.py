"""Refused values of Kafka properties: a file in place of a URL, a URL in place of a file, classes not installed for Kafka.

The Kafka client trusts its configuration: a token endpoint may be `file:///etc/passwd`, a login module may look up an object on
another host and run it. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WEB = re.compile(r"https?://[^/\s?#]+\S*", re.IGNORECASE)
_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OPTION = re.compile(r"""\s*[^\s=;"']+\s*=\s*("(\\.|[^"\\])*"|'(\\.|[^'\\])*'|[^\s;"']+)""", re.DOTALL)
_MODULE = re.compile(r"\s*([^\s;=]+)\s+(required|requisite|sufficient|optional)(?=[\s;])", re.IGNORECASE)

_FOREIGN = (
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "com.sun.",
    "com.ibm.",
    "org.apache.spark.",
    "org.apache.hadoop.",
    "scala.",
    "groovy.",
)
"""Packages that are always on the class path and hold nothing that a Kafka client needs by name, `_LOGINS` apart."""
_LOGINS = {"com.sun.security.auth.module.Krb5LoginModule", "com.ibm.security.auth.module.Krb5LoginModule"}
"""The Kerberos login modules in these packages."""
_CLASSES = ("partition.assignment.strategy", "metric.reporters", "security.providers")


@dataclass(frozen=True)
class Refused:
    """Why a property is refused. Never holds its value, which may be a secret."""

    what: str
    expected: str
    next_step: str


def refused(name: str, value: str) -> Refused | None:
    """Return why a property may not have a value, or None if it may.

    >>> refused("sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd").what
    'this is no address of a server'
    >>> refused("ssl.truststore.location", "/etc/kafka/trust.jks") is None
    True
    """
    if name == "config.providers" or name.startswith("config.providers."):
        next_step = "Write ${env:NAME}, or ${secret:scope/key} on Databricks, into the value itself."
        return Refused("a provider would put other values in place of what is checked here", "no providers", next_step)
    if name == "sasl.jaas.config":
        return _login(value)
    if name.endswith((".class", ".classes")) or name in _CLASSES:
        return _classes(value)
    if name.endswith(".url"):
        return _address(value)
    if name.endswith((".location", ".file")):
        return _path(value)
    return None


def _address(value: str) -> Refused | None:
    if _WEB.fullmatch(value):
        return None
    expected = "a URL that starts with https:// or http://"
    return Refused("this is no address of a server", expected, "Write it like https://login.example.org/oauth2/token.")


def _path(value: str) -> Refused | None:
    if value and not _SCHEME.match(value) and not _CONTROL.search(value):
        return None
    return Refused("this is no path of a file", "a path on the machine that reads", "Write it like /etc/kafka/truststore.p12.")


def _classes(value: str) -> Refused | None:
    names = [each.strip() for each in value.split(",") if each.strip()]
    if all(_CLASS.fullmatch(name) and not name.startswith(_FOREIGN) for name in names):
        return None
    expected = "classes of Kafka, or of a library that was installed for it"
    return Refused("this names no class that belongs here", expected, "Leave it out, or name the library's own class.")


def _login(value: str) -> Refused | None:
    names = _modules(value)
    if names is None:
        expected = "a login module, required, its options as name=value, and a semicolon at the end"
        return Refused("this cannot be read as a login", expected, "Put values that are not plain words in double quotes.")
    if all(name in _LOGINS or (_CLASS.fullmatch(name) and not name.startswith(_FOREIGN)) for name in names):
        return None
    expected = "a login module of Kafka, of Kerberos, or of a library that was installed for it"
    next_step = "For example org.apache.kafka.common.security.scram.ScramLoginModule."
    return Refused("this module does not log in to Kafka", expected, next_step)


def _modules(value: str) -> list[str] | None:
    """Parse a JAAS text strictly into the login modules that it names; None if it cannot be parsed."""
    names, at = [], 0
    while value[at:].strip():
        found = _MODULE.match(value, at)
        if not found:
            return None
        names.append(found[1].strip("\"'"))
        at = found.end()
        while option := _OPTION.match(value, at):
            at = option.end()
        end = re.compile(r"\s*;").match(value, at)
        if not end:
            return None
        at = end.end()
    return names or None
