"""The settings of a schema registry: where it is, and how it is reached."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from lakehouse.settings.base import Model, SecretText, SettingError, Text, from_config_folder, setting
from lakehouse.settings.kafka import is_web_address
from lakehouse.settings.secrets import HIDES_SECRETS, in_uri


def _url(text: str) -> str:
    if not is_web_address(text):
        expected = "a URL that starts with https:// or http://, of another host than a link-local one"
        raise SettingError("this is no address of a server", expected, "Write it like https://registry.example.org:8081.")
    if in_uri(text):
        next_step = "Write username and password as references: password: ${env:REGISTRY_PASSWORD}."
        raise SettingError("a password stands in the URL", "user and password beside it", next_step)
    return text.rstrip("/")


File = Annotated[Text, AfterValidator(from_config_folder)]


class Registry(Model):
    """A schema registry of Confluent's protocol: its presence says that each value has the prefix of the wire format."""

    url: Annotated[str, AfterValidator(_url), HIDES_SECRETS] = setting(..., "its address", "https://registry.example.org:8081")
    username: Text | None = setting(None, "for basic auth: the user", "${env:REGISTRY_USER}")
    password: SecretText | None = setting(None, "its password, as a reference", "${env:REGISTRY_PASSWORD}")
    ca: File | None = setting(None, "a file of certificates to check the registry's by", "/etc/ssl/registry-ca.pem")
    cert: File | None = setting(None, "a client certificate's file", "/etc/ssl/client.pem")
    key: File | None = setting(None, "the file of its key", "/etc/ssl/client.key")
    undecodable_ids: tuple[Annotated[int, Field(strict=True, ge=0, lt=2**32)], ...] = setting(
        (), "ids that no schema has: values with them are undecodable", "[4711]"
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        for one, other in (("password", "username"), ("key", "cert")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise SettingError(f"{one} without {other}", "both, or neither", f"Add {other}.", at=(one,))
        return self

    def is_same_as(self, other: "Registry") -> bool:
        """Whether both are one registry, reached in the same way."""
        return self.model_copy(update={"undecodable_ids": other.undecodable_ids}) == other
