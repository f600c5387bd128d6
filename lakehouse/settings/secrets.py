"""Secrets: the text type for values of `${env:NAME}` and `${secret:scope/key}`, which is masked wherever it is shown."""

import re
from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, GetPydanticSchema
from pydantic_core import core_schema

MASK = "********"
MASKED = "masked"
"""Metadata of a setting that is masked even if it is written in plain text, always or because of its name."""

_SMELLS = re.compile(
    r"assertion|credential|jaas|key|passphrase|passwd|password|private|pwd|secret|token|user\.info|(auth|pass|sig|signature)$"
)
# Up to the last @: a password may hold an unescaped slash or @.
_LOGIN = re.compile(r"(?<=://)\S+(?=@)")
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;#?/\s]+)=([^&;#\s]+)")
_WEB = ("http://", "https://")
_SHORTEST = 4


class Secret(str):
    """Text from a reference, masked in its repr. `parts` are the referenced values, which a log may hold on their own."""

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, text: str, parts: tuple[str, ...] = ()) -> Self:
        """Mark a text as secret. One that already is keeps its parts."""
        secret = super().__new__(cls, text)
        secret.parts = text.parts if isinstance(text, Secret) and not parts else parts
        return secret

    def __repr__(self) -> str:
        return repr(MASK)


HIDES_SECRETS = GetPydanticSchema(
    lambda source, handler: core_schema.no_info_wrap_validator_function(
        _keep, handler(source), serialization=core_schema.plain_serializer_function_ser_schema(mask)
    )
)
"""Makes pydantic keep a Secret, where it would return a str, and mask it in dumps. The last part of an Annotated."""


def _keep(value: Any, check: core_schema.ValidatorFunctionWrapHandler) -> Any:
    checked = check(value)
    return Secret(checked, value.parts) if isinstance(value, Secret) else checked


def in_uri(text: str) -> list[tuple[int, int]]:
    """Return the (start, end) of credentials in a text's URIs: user info, and parameters named like a secret.

    User info without a password is a credential only in http(s); elsewhere it is a name (`abfss://container@account`).

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


def mask(value: object) -> object:
    """Mask the secrets of a value: text from references, also in lists and mappings, and credentials in URIs.

    >>> mask({"a": [Secret("x"), 1], "b": "s3://id:pass@bucket/lake"})
    {'a': ['********', 1], 'b': 's3://********@bucket/lake'}
    """
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, str):
        for start, end in reversed(in_uri(value)):
            value = f"{value[:start]}{MASK}{value[end:]}"
        return value
    if isinstance(value, Mapping):
        return {key: mask(part) for key, part in value.items()}
    return [mask(part) for part in value] if isinstance(value, (list, tuple)) else value


def smells_of_secret(name: str) -> bool:
    """Whether a key of this name usually holds a secret.

    >>> smells_of_secret("sasl.jaas.config"), smells_of_secret("ssl.keystore.location"), smells_of_secret("ssl.keystore.key")
    (True, False, True)
    """
    plain = name.lower().replace("_", ".").replace("-", ".").replace("keystore", "")
    return _SMELLS.search(plain) is not None


def secret_texts(value: object) -> set[str]:
    """Return every secret text in a value, at any depth: whole secrets, their referenced parts, credentials in URIs."""
    if isinstance(value, Secret):
        return {text for text in (str(value), *value.parts) if text}
    if isinstance(value, str):
        logins = [value[start:end] for start, end in in_uri(value)]
        parts = {part for login in logins for part in (login, login.partition(":")[2])}
        return {part for part in parts if len(part) >= _SHORTEST}  # a shorter one would be masked inside ordinary words
    if isinstance(value, BaseModel):
        value = value.__dict__  # not a dump, which masks the secrets
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return set().union(*map(secret_texts, value)) if isinstance(value, (list, tuple)) else set()
