"""Secrets: `${env:NAME}` and `${secret:scope/key}` in config values, and the text type that masks them.

A secret is read once, when the config is loaded. It is held as `Secret` or pydantic's `SecretStr`, whose representations are
masked; code that needs the real value asks for it explicitly (`Kafka.client_properties`).
"""

import importlib
import re
from collections.abc import Mapping
from typing import Self

from pydantic import PlainSerializer, SecretStr, ValidatorFunctionWrapHandler, WrapValidator

MASK = "********"
MASKED = "masked"
"""Metadata of a setting that is masked, always or by the name that it has in the config, though it is written out."""

# "$${" is a literal "${"; a reference without its "}" is matched too, so that it is refused and not sent to a broker as it is.
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_SCOPED = re.compile(r"secret:([^/\s]+)/([^/\s]+)")
_SMELLS = (
    "assertion",
    "credential",
    "jaas",
    "key",
    "passphrase",
    "passwd",
    "password",
    "private",
    "pwd",
    "secret",
    "token",
    "user.info",
)
_SMELLING_ENDS = ("auth", "pass", "sig", "signature")


class Secret(str):
    """Text that came from a reference: usable as text, masked in its repr.

    Attributes:
        parts: The referenced values in it; a log line may hold one of them without the text around it.

    >>> Secret("host:9092", parts=("host",))
    '********'
    """

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, text: str, parts: tuple[str, ...] = ()) -> Self:
        """Mark a text as secret."""
        secret = super().__new__(cls, text)
        secret.parts = parts
        return secret

    @classmethod
    def marked(cls, text: str) -> Self:
        """Mark a text as secret, unless it is marked."""
        return text if isinstance(text, cls) else cls(text)

    def __repr__(self) -> str:
        return repr(MASK)


class UnresolvedReferenceError(ValueError):
    """A reference in a config value cannot be resolved. The error's texts hold no value, so they may be shown.

    Args:
        what: What is wrong with the reference.
        expected: What would be right.
        next_step: What the reader can do.
    """

    def __init__(self, what: str, *, expected: str, next_step: str) -> None:
        self.what = what
        self.expected = expected
        self.next_step = next_step
        super().__init__(what)


def _keep(value: object, check: ValidatorFunctionWrapHandler) -> object:
    checked = check(value)
    return Secret(checked, value.parts) if isinstance(value, Secret) else checked


# Up to the last @: a password may hold a slash or an @, though neither belongs there unescaped.
_LOGIN = re.compile(r"(?<=://)\S+(?=@)")
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;#?/\s]+)=([^&;#\s]+)")


def in_uri(text: str) -> list[tuple[int, int]]:
    """Return the (start, end) of credentials in a text's URIs: user info, and parameters named like a secret.

    User info without a password is a credential only under http(s); elsewhere it is a name (`abfss://container@account`). In
    doubt more is hidden, never less.

    >>> [text[a:b] for text in ("s3://id:pass@b/x", "https://t0ken@h", "abfss://c@a") for a, b in in_uri(text)]
    ['id:pass', 't0ken']
    >>> [text[a:b] for text in ("wasbs://c@a/x?sv=1&sig=abc", "http://h/?token=t#x") for a, b in in_uri(text)]
    ['abc', 't']
    >>> [text[a:b] for text in ("s3a://id:a/b@c@d/x", "file:/a;password=b", "s3://b?X-Signature=c") for a, b in in_uri(text)]
    ['id:a/b@c', 'b', 'c']
    >>> mask("jdbc:a;password=x://id:p@h;b=c")
    'jdbc:a;password=********;b=c'
    """
    logins = [match.span() for match in _LOGIN.finditer(text) if ":" in match[0] or text[: match.start()].endswith(_WEB)]
    named = [match.span(2) for match in _PARAMETER.finditer(text) if smells_of_secret(match[1])]
    spans: list[tuple[int, int]] = []
    for start, end in sorted(logins + named):  # one may lie within the other
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


_WEB = ("http://", "https://")
_SHORTEST = 4


def mask(value: object) -> object:
    """Mask what may not be shown of a value: text from references, in lists and mappings too, and credentials in URIs.

    >>> mask({"a": [Secret("x"), 1], "b": "s3://id:pass@bucket/lake"})
    {'a': ['********', 1], 'b': 's3://********@bucket/lake'}
    """
    if isinstance(value, (Secret, SecretStr)):
        return MASK
    if isinstance(value, str):
        for start, end in reversed(in_uri(value)):
            value = f"{value[:start]}{MASK}{value[end:]}"
        return value
    if isinstance(value, Mapping):
        return {key: mask(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask(part) for part in value]
    return value


# Pydantic's validation turns a subclass of str into plain str; these keep a Secret, and mask it when dumped.
# They come last in an Annotated, around the checks of the text.
KEEP_SECRET = WrapValidator(_keep)
MASK_SECRET = PlainSerializer(mask)


def smells_of_secret(name: str) -> bool:
    """Whether a key of this name usually holds a secret, so that its value is masked even if written in plain text.

    >>> smells_of_secret("sasl.jaas.config"), smells_of_secret("ssl.keystore.location"), smells_of_secret("ssl.keystore.key")
    (True, False, True)
    """
    plain = name.lower().replace("_", ".").replace("-", ".").replace("keystore", "")
    return any(word in plain for word in _SMELLS) or plain.endswith(_SMELLING_ENDS)


def resolve(text: str, environ: Mapping[str, str]) -> str:
    """Replace a text's references: the result is a `Secret` if there was one, else plain text.

    Raises:
        UnresolvedReferenceError: A variable is not set, a secret scope cannot be read, or the reference is malformed.

    >>> resolve("plain", {}), resolve("user=${env:NAME}", {"NAME": "ada"}) == "user=ada"
    ('plain', True)
    """
    parts: list[str] = []

    def replace(found: re.Match[str]) -> str:
        if found[1] is None:
            return "${"
        parts.append(_value_of(found[1] if found[2] else "", environ))
        return parts[-1]

    resolved = _REFERENCE.sub(replace, text)
    return Secret(resolved, tuple(parts)) if parts else resolved


def _value_of(reference: str, environ: Mapping[str, str]) -> str:
    if variable := _ENV.fullmatch(reference):
        if variable[1] not in environ:
            raise UnresolvedReferenceError(
                f"the environment variable {variable[1]} is not set",
                expected=f"{variable[1]} in the environment of this process",
                next_step=f"Set it (export {variable[1]}=...), or name another variable.",
            )
        return environ[variable[1]]
    if scoped := _SCOPED.fullmatch(reference):
        return _databricks_secret(scoped[1], scoped[2])
    # The text is not repeated: it may be part of a password that happens to contain "${".
    raise UnresolvedReferenceError(
        "a ${...} reference is malformed",
        expected="${env:NAME} or ${secret:scope/key}",
        next_step="Correct the reference; where the text really contains ${, write $${.",
    )


def _databricks_secret(scope: str, key: str) -> str:
    where = f"the secret {key} of the Databricks scope {scope}"
    try:
        secrets = importlib.import_module("databricks.sdk.runtime").dbutils.secrets
    except (ImportError, AttributeError):
        raise UnresolvedReferenceError(
            f"{where} cannot be read here",
            expected="a Databricks cluster or job: ${secret:scope/key} works only there",
            next_step="Elsewhere, put the value into an environment variable and write ${env:NAME}.",
        ) from None
    try:
        return str(secrets.get(scope, key))
    except Exception as error:  # noqa: BLE001 -- dbutils raises py4j's or the SDK's errors; neither can be imported everywhere
        raise UnresolvedReferenceError(
            f"{where} cannot be read ({type(error).__name__})",
            expected="a scope and key that exist, and the right to read them",
            next_step=f"Look with: databricks secrets list-secrets {scope}",
        ) from None


def secret_texts(value: object) -> set[str]:
    """Return every secret text in a value, at any depth: whole secrets, their referenced parts, credentials in URIs.

    >>> sorted(secret_texts({"a": (Secret("user=ada", parts=("ada",)), "plain")}))
    ['ada', 'user=ada']
    """
    if isinstance(value, SecretStr):
        value = Secret(value.get_secret_value(), getattr(value.get_secret_value(), "parts", ()))
    if isinstance(value, Secret):
        return {text for text in (str(value), *value.parts) if text}
    if isinstance(value, str):
        logins = [value[start:end] for start, end in in_uri(value)]
        parts = {part for login in logins for part in (login, login.partition(":")[2])}
        return {part for part in parts if len(part) >= _SHORTEST}  # a shorter text would be masked inside ordinary words
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return set().union(*(secret_texts(part) for part in value))
    return set()
