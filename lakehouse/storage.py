"""Object stores that hold tables: how Spark, delta-rs and obstore reach each of them, all with the same credentials.

Settings that the config lacks come from the environment (`AWS_REGION`), and credentials also from the cloud's machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from lakehouse.machine.storage_jar import CHECKPOINTS, LOG_STORE
from lakehouse.uri import AZURE_SCHEMES, GOOGLE_SCHEMES, S3_SCHEMES, scheme

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.settings.pipeline import LakehouseSettings, StorageSettings

_OF_AZURE = {
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
    "tenant_id": ("AZURE_TENANT_ID",),
    "client_id": ("AZURE_CLIENT_ID",),
    "client_secret": ("AZURE_CLIENT_SECRET",),
}
_PRINCIPAL = ("tenant_id", "client_id", "client_secret")
_LOGIN = "https://login.microsoftonline.com"
_FILE_SYSTEM = "com.google.cloud.hadoop.fs.gcs."
_SIZES = {
    "block.size": 64,
    "inputstream.inplace.seek.limit": 8,
    "inputstream.min.range.request.size": 2,
    "outputstream.buffer.size": 8,
    "rewrite.max.chunk.size": 512,
}
"""In MiB, as the connector has them: it cannot read the defaults of Hadoop's own client, like `64m`."""
_OF_S3 = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_WEB_IDENTITY = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
"""Set in a pod whose service account has a role. Hadoop's own chain of credentials ignores them and signs as the node."""
_PROVIDER = "spark.hadoop.fs.s3a.aws.credentials.provider"
_ANY_REGION = "us-east-1"
"""The region for stores other than Amazon's, which have none."""


class Storage(Protocol):
    """A store of objects."""

    jars: ClassVar[str]
    """The set of jars that a session needs for it; see `lakehouse.machine.jars`."""

    def for_spark(self) -> dict[str, str]:
        """Return the settings of a Spark session that is started here."""

    def for_delta_rs(self) -> dict[str, str]:
        """Return the storage options of delta-rs."""


@dataclass(frozen=True)
class AzureStorage:
    """A storage account of Azure; `host` is its name in the network. An `endpoint` is another server, with blobs only."""

    host: str
    account_key: str | None = field(default=None, repr=False)
    tenant_id: str | None = field(default=None, repr=False)
    client_id: str | None = field(default=None, repr=False)
    client_secret: str | None = field(default=None, repr=False)
    endpoint: str | None = None

    jars: ClassVar[str] = "azure"

    @classmethod
    def of(cls, place: str, given: StorageSettings | None, environ: Mapping[str, str]) -> AzureStorage | None:
        """Return the account of a URI; None without credentials: then only the session's settings reach it."""
        known = _credentials(_OF_AZURE, given, environ)
        if given and given.client_secret:  # a key of the environment does not go before the config's principal
            known["account_key"] = None
        if known["account_key"] is not None:
            known |= dict.fromkeys(_PRINCIPAL)
        elif None in (known[name] for name in _PRINCIPAL):
            return None
        authority = place.partition("://")[2].partition("/")[0]
        return cls(authority.rpartition("@")[2], **known, endpoint=given.endpoint if given else None)

    def for_spark(self) -> dict[str, str]:
        """See `Storage`."""
        if self.account_key:
            own = {"auth.type": "SharedKey", "key": self.account_key}
        else:
            own = {
                "auth.type": "OAuth",
                "oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                "oauth2.client.endpoint": f"{_LOGIN}/{self.tenant_id}/oauth2/token",
                "oauth2.client.id": self.client_id or "",
                "oauth2.client.secret": self.client_secret or "",
            }
        conf = {f"account.{name}.{self.host}": value for name, value in own.items()}
        conf["ssl.channel.mode"] = "Default_JSSE"  # the default looks for a library of OpenSSL's first
        if self.endpoint:
            conf |= {
                "abfs.endpoint": self._authority,
                "always.use.https": str(self.endpoint.startswith("https://")).lower(),
                "account.hns.enabled": "false",
                "fns.account.service.type": "BLOB",
                "networking.library": "JDK_HTTP_URL_CONNECTION",  # the other one wants TLS
            }
        return {f"spark.hadoop.fs.azure.{name}": value for name, value in conf.items()}

    def for_delta_rs(self) -> dict[str, str]:
        """See `Storage`."""
        options = {
            "azure_storage_account_name": self._account,
            "azure_storage_account_key": self.account_key,
            "azure_storage_tenant_id": self.tenant_id,
            "azure_storage_client_id": self.client_id,
            "azure_storage_client_secret": self.client_secret,
            "azure_storage_endpoint": f"{self.endpoint}/{self._account}" if self.endpoint else None,
            "azure_allow_http": "true" if (self.endpoint or "").startswith("http://") else None,
        }
        return {name: value for name, value in options.items() if value is not None}

    @property
    def _account(self) -> str:
        return self.host.partition(".")[0]

    @property
    def _authority(self) -> str:
        return (self.endpoint or "").partition("://")[2].rstrip("/")


@dataclass(frozen=True)
class GoogleStorage:
    """Google Cloud Storage, with application default credentials; an endpoint without TLS is for tests, and gets none."""

    endpoint: str | None = None

    jars: ClassVar[str] = "google"

    def for_spark(self) -> dict[str, str]:
        """See `Storage`."""
        conf = {
            "gs.impl": f"{_FILE_SYSTEM}GoogleHadoopFileSystem",
            "AbstractFileSystem.gs.impl": f"{_FILE_SYSTEM}GoogleHadoopFS",
            "gs.auth.type": "UNAUTHENTICATED" if self._is_plain else "APPLICATION_DEFAULT",
            **{f"gs.{name}": str(size << 20) for name, size in _SIZES.items()},
        }
        if self.endpoint:
            conf["gs.storage.root.url"] = f"{self.endpoint.rstrip('/')}/"
        return {f"spark.hadoop.fs.{name}": value for name, value in conf.items()}

    def for_delta_rs(self) -> dict[str, str]:
        """See `Storage`."""
        options = {"google_base_url": self.endpoint.rstrip("/")} if self.endpoint else {}
        return {**options, **({"google_skip_signature": "true", "allow_http": "true"} if self._is_plain else {})}

    @property
    def _is_plain(self) -> bool:
        return (self.endpoint or "").startswith("http://")


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
        known = _credentials(_OF_S3, given, environ)
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

    @property
    def _region(self) -> str | None:
        return self.region or (_ANY_REGION if self.endpoint else None)

    @property
    def _is_plain(self) -> bool:
        return (self.endpoint or "").startswith("http://")


def storage_of(lakehouse: LakehouseSettings, environ: Mapping[str, str]) -> Storage | None:
    """Return the store of a lakehouse's root, or of a catalog's tables if the config names one; None if they are in none."""
    place, given = lakehouse.root or lakehouse.volume or "", lakehouse.storage
    name = scheme(place)
    if name in AZURE_SCHEMES:
        return AzureStorage.of(place, given, environ)
    if name in GOOGLE_SCHEMES:
        return GoogleStorage(given.endpoint if given else None)
    if name in S3_SCHEMES or given is not None:
        return S3Storage.of(given, environ)
    return None


def log_store_key(name: str) -> str:
    """Return the setting that names Delta's log store of a scheme.

    >>> log_store_key("s3a")
    'spark.delta.logStore.s3a.impl'
    """
    return f"spark.delta.logStore.{name}.impl"


def _credentials(
    names: Mapping[str, Sequence[str]], given: StorageSettings | None, environ: Mapping[str, str]
) -> dict[str, str | None]:
    """Return each key's value: the config's, else that of the first of its variables that is set.

    >>> _credentials({"region": ("AWS_REGION", "AWS_DEFAULT_REGION")}, None, {"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu"})
    {'region': 'eu'}
    """
    return {
        name: getattr(given, name, None) or next((environ[each] for each in variables if environ.get(each)), None)
        for name, variables in names.items()
    }
