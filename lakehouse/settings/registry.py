"""The settings of a schema registry: where it is, and how it is reached."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from lakehouse.settings.base import Model, SecretText, Text, from_config_folder, refusal
from lakehouse.settings.kafka import web_address
from lakehouse.settings.secrets import KEEP_SECRET, MASK_SECRET, in_uri

_HIGHEST_ID = 2**32 - 1


def _url(text: str) -> str:
    if wrong := web_address(text):
        raise refusal(wrong.what, expected=wrong.expected, next_step="Write it like https://registry.example.org:8081.")
    if in_uri(text):
        raise refusal(
            "a password stands in the URL",
            expected="user and password beside it",
            next_step="Write username and password as references: password: ${env:REGISTRY_PASSWORD}.",
        )
    return text.rstrip("/")


File = Annotated[Text, AfterValidator(from_config_folder)]


class Registry(Model):
    """A schema registry of Confluent's protocol: its presence says that each value has the prefix of the wire format."""

    url: Annotated[str, AfterValidator(_url), KEEP_SECRET, MASK_SECRET] = Field(
        description="its address", examples=["https://registry.example.org:8081"]
    )
    username: Text | None = Field(default=None, description="for basic auth: the user", examples=["${env:REGISTRY_USER}"])
    password: SecretText | None = Field(
        default=None, description="its password, as a reference", examples=["${env:REGISTRY_PASSWORD}"]
    )
    ca: File | None = Field(
        default=None, description="a file of certificates to check the registry's by", examples=["/etc/ssl/registry-ca.pem"]
    )
    cert: File | None = Field(default=None, description="a client certificate's file", examples=["/etc/ssl/client.pem"])
    key: File | None = Field(default=None, description="the file of its key", examples=["/etc/ssl/client.key"])
    undecodable_ids: tuple[Annotated[int, Field(strict=True, ge=0, le=_HIGHEST_ID)], ...] = Field(
        default=(), description="ids that no schema has: values with them are undecodable", examples=["[4711]"]
    )

    @model_validator(mode="after")
    def _is_whole(self) -> "Registry":
        for one, other in (("password", "username"), ("key", "cert")):
            if getattr(self, one) is not None and getattr(self, other) is None:
                raise refusal(f"{one} without {other}", expected="both, or neither", next_step=f"Add {other}.", at=(one,))
        return self

    def is_same_as(self, other: "Registry") -> bool:
        """Whether both are one registry, reached in the same way."""
        return self.model_copy(update={"undecodable_ids": other.undecodable_ids}) == other
