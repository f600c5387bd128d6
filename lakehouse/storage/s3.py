"""S3, Amazon's or another: `s3://bucket/lake`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from lakehouse.machine.storage_jar import CHECKPOINTS, LOG_STORE
from lakehouse.storage.given import found
from lakehouse.uri import S3_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyarrow.fs import FileSystem

    from lakehouse.settings.pipeline import StorageSettings

_ENVIRONMENT = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_WEB_IDENTITY = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
"""Set in a pod whose service account has a role. Hadoop's own chain of credentials ignores them and signs as the node."""
_CONNECT_SECONDS, _REQUEST_SECONDS = 10, 60
"""How long Arrow waits for a store. Its own defaults, 1 s and 3 s, are shorter than a busy store pauses."""
_PROVIDER = "spark.hadoop.fs.s3a.aws.credentials.provider"
_ANY_REGION = "us-east-1"
"""The region for stores other than Amazon's, which have none."""


@dataclass(frozen=True)
class S3Storage:
    """An S3 store: Amazon's unless there is an endpoint. Without a key, credentials are those of the environment or machine.

    `has_web_identity` means those of a pod's service account. With `is_single_writer`, commits go without put-if-absent,
    because nobody else ever writes.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    is_single_writer: bool = False
    has_web_identity: bool = False

    jars: ClassVar[str] = "s3"

    @classmethod
    def of(cls, given: StorageSettings | None, environ: Mapping[str, str]) -> S3Storage:
        """Return the store that the config names, or else the environment; otherwise Amazon's."""
        known = found(_ENVIRONMENT, given, environ)
        if given and given.access_key_id:  # a token of the environment belongs to the environment's key
            known["session_token"] = given.session_token
        has_web_identity = not known["access_key_id"] and all(environ.get(name) for name in _WEB_IDENTITY)
        return cls(**known, is_single_writer=bool(given and given.single_writer), has_web_identity=has_web_identity)

    def for_spark(self) -> dict[str, str]:
        """See `Storage`."""
        conf = {
            # s3:// uses the code and the settings of s3a://.
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
            # The default needs one more library, and small files gain nothing from it.
            "spark.hadoop.fs.s3a.input.stream.type": "classic",
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": self._region,
            "spark.hadoop.fs.s3a.path.style.access": "true" if self.endpoint else None,
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false" if self._is_plain else None,
            "spark.hadoop.fs.s3a.access.key": self.access_key_id,
            "spark.hadoop.fs.s3a.secret.key": self.secret_access_key,
            "spark.hadoop.fs.s3a.session.token": self.session_token,
        }
        if self.session_token:
            conf[_PROVIDER] = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        if self.has_web_identity:
            conf[_PROVIDER] = "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider"
        if not self.is_single_writer:
            conf.update({log_store_key(name): LOG_STORE for name in S3_SCHEMES})
        return {name: value for name, value in conf.items() if value is not None}

    def for_delta_rs(self) -> dict[str, str]:
        """See `Storage`."""
        options = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true" if self._is_plain else None,
            "AWS_REGION": self._region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_SESSION_TOKEN": self.session_token,
        }
        return {name: value for name, value in options.items() if value is not None}

    def files(self) -> FileSystem:
        """See `Storage`."""
        from pyarrow.fs import S3FileSystem

        scheme_, _, host = (self.endpoint or "").rpartition("://")
        return S3FileSystem(
            access_key=self.access_key_id,
            secret_key=self.secret_access_key,
            session_token=self.session_token,
            region=self._region,
            scheme=scheme_ or None,
            endpoint_override=host or None,
            connect_timeout=_CONNECT_SECONDS,
            request_timeout=_REQUEST_SECONDS,
        )

    @property
    def _region(self) -> str | None:
        return self.region or (_ANY_REGION if self.endpoint else None)

    @property
    def _is_plain(self) -> bool:
        return (self.endpoint or "").startswith("http://")


def log_store_key(name: str) -> str:
    """Return the setting that names Delta's log store of a scheme.

    >>> log_store_key("s3a")
    'spark.delta.logStore.s3a.impl'
    """
    return f"spark.delta.logStore.{name}.impl"
