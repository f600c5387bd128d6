"""Object stores that hold tables, and the settings by which Spark, delta-rs and obstore reach them.

Settings that the config lacks are taken from the environment (`AWS_REGION`), credentials also from the cloud's machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from lakehouse.machine.storage_jar import CHECKPOINTS, LOG_STORE
from lakehouse.uri import AZURE_SCHEMES, GOOGLE_SCHEMES, S3_SCHEMES, scheme

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import LakehouseSettings, StorageSettings

_OF_AZURE = {
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
    "tenant_id": ("AZURE_TENANT_ID",),
    "client_id": ("AZURE_CLIENT_ID",),
    "client_secret": ("AZURE_CLIENT_SECRET",),
}
_PRINCIPAL = ("tenant_id", "client_id", "client_secret")
_FILE_SYSTEM = "com.google.cloud.hadoop.fs.gcs."
_SIZES = {
    "block.size": 64,
    "inputstream.inplace.seek.limit": 8,
    "inputstream.min.range.request.size": 2,
    "outputstream.buffer.size": 8,
    "rewrite.max.chunk.size": 512,
}
"""The connector's defaults in MiB: it cannot read those of Hadoop's own client, such as `64m`."""
_OF_S3 = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_WEB_IDENTITY = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
"""Set in a pod whose service account has a role. Hadoop's default credentials ignore them and use those of the node."""
_PROVIDER = "spark.hadoop.fs.s3a.aws.credentials.provider"


@dataclass(frozen=True)
class AzureStorage:
    """A storage account of Azure with the host name `host`. An `endpoint` is another server, with blobs only.

    `jars` is the set of jars that a Spark session needs for the store, see `lakehouse.machine.jars`.
    """

    host: str
    account_key: str | None = field(default=None, repr=False)
    tenant_id: str | None = field(default=None, repr=False)
    client_id: str | None = field(default=None, repr=False)
    client_secret: str | None = field(default=None, repr=False)
    endpoint: str | None = None

    jars: ClassVar[str] = "azure"

    @classmethod
    def of(cls, place: str, settings: StorageSettings | None, environ: Mapping[str, str]) -> AzureStorage | None:
        """Return the account of a URI; None without credentials: then only the session's own settings reach it."""
        credentials = _credentials(_OF_AZURE, settings, environ)
        if settings and settings.client_secret:  # the config's principal precedes a key of the environment
            credentials["account_key"] = None
        if credentials["account_key"] is not None:
            credentials |= dict.fromkeys(_PRINCIPAL)
        elif None in (credentials[name] for name in _PRINCIPAL):
            return None
        authority = place.partition("://")[2].partition("/")[0]
        return cls(authority.rpartition("@")[2], **credentials, endpoint=settings.endpoint if settings else None)

    def for_spark(self) -> dict[str, str]:
        """Return the settings of a Spark session that Tidemark starts."""
        if self.account_key:
            own = {"auth.type": "SharedKey", "key": self.account_key}
        else:
            own = {
                "auth.type": "OAuth",
                "oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                "oauth2.client.endpoint": f"https://login.microsoftonline.com/{self.tenant_id}/oauth2/token",
                "oauth2.client.id": self.client_id or "",
                "oauth2.client.secret": self.client_secret or "",
            }
        conf = {f"account.{name}.{self.host}": value for name, value in own.items()}
        conf["ssl.channel.mode"] = "Default_JSSE"  # the default searches for an OpenSSL library first
        if self.endpoint:
            conf |= {
                "abfs.endpoint": self.endpoint.partition("://")[2].rstrip("/"),
                "always.use.https": str(self.endpoint.startswith("https://")).lower(),
                "account.hns.enabled": "false",
                "fns.account.service.type": "BLOB",
                "networking.library": "JDK_HTTP_URL_CONNECTION",  # the default needs TLS
            }
        return {f"spark.hadoop.fs.azure.{name}": value for name, value in conf.items()}

    def for_delta_rs(self) -> dict[str, str]:
        """Return the storage options of delta-rs."""
        account = self.host.partition(".")[0]
        options = {
            "azure_storage_account_name": account,
            **{f"azure_storage_{name}": getattr(self, name) for name in _OF_AZURE},
            "azure_storage_endpoint": f"{self.endpoint}/{account}" if self.endpoint else None,
            "azure_allow_http": "true" if _is_plain(self.endpoint) else None,
        }
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True)
class GoogleStorage:
    """Google Cloud Storage, with application default credentials. An endpoint without TLS is for tests and gets none."""

    endpoint: str | None = None

    jars: ClassVar[str] = "google"

    def for_spark(self) -> dict[str, str]:
        """See `AzureStorage`."""
        conf = {
            "gs.impl": f"{_FILE_SYSTEM}GoogleHadoopFileSystem",
            "AbstractFileSystem.gs.impl": f"{_FILE_SYSTEM}GoogleHadoopFS",
            "gs.auth.type": "UNAUTHENTICATED" if _is_plain(self.endpoint) else "APPLICATION_DEFAULT",
            **{f"gs.{name}": str(size << 20) for name, size in _SIZES.items()},
        }
        if self.endpoint:
            conf["gs.storage.root.url"] = f"{self.endpoint.rstrip('/')}/"
        return {f"spark.hadoop.fs.{name}": value for name, value in conf.items()}

    def for_delta_rs(self) -> dict[str, str]:
        """See `AzureStorage`."""
        options = {"google_base_url": self.endpoint.rstrip("/")} if self.endpoint else {}
        return {**options, **({"google_skip_signature": "true", "allow_http": "true"} if _is_plain(self.endpoint) else {})}


@dataclass(frozen=True)
class S3Storage:
    """An S3 store: Amazon's unless there is an endpoint. Without a key, the environment or the machine has the credentials.

    `has_web_identity`: they are those of a pod's service account. `is_single_writer`: commits without put-if-absent.
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
    def of(cls, settings: StorageSettings | None, environ: Mapping[str, str]) -> S3Storage:
        """Return the store that the config or the environment names, else Amazon's."""
        credentials = _credentials(_OF_S3, settings, environ)
        if settings and settings.access_key_id:  # a token in the environment belongs to the key in the environment
            credentials["session_token"] = settings.session_token
        has_web_identity = not credentials["access_key_id"] and all(environ.get(name) for name in _WEB_IDENTITY)
        return cls(**credentials, is_single_writer=bool(settings and settings.single_writer), has_web_identity=has_web_identity)

    def for_spark(self) -> dict[str, str]:
        """See `AzureStorage`."""
        conf = {
            # s3:// uses the code and the settings of s3a://.
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
            # The default needs another library.
            "spark.hadoop.fs.s3a.input.stream.type": "classic",
            "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": self._region,
            "spark.hadoop.fs.s3a.path.style.access": "true" if self.endpoint else None,
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false" if _is_plain(self.endpoint) else None,
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
        """See `AzureStorage`."""
        options = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true" if _is_plain(self.endpoint) else None,
            "AWS_REGION": self._region,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_SESSION_TOKEN": self.session_token,
        }
        return {name: value for name, value in options.items() if value is not None}

    @property
    def _region(self) -> str | None:
        return self.region or ("us-east-1" if self.endpoint else None)  # stores other than Amazon's have none


Storage: TypeAlias = AzureStorage | GoogleStorage | S3Storage


def storage_of(lakehouse: LakehouseSettings, environ: Mapping[str, str]) -> Storage | None:
    """Return the store of a root, or of a catalog's tables if the config names one; None if the tables are in no store."""
    place, settings = lakehouse.root or lakehouse.volume or "", lakehouse.storage
    name = scheme(place)
    if name in AZURE_SCHEMES:
        return AzureStorage.of(place, settings, environ)
    if name in GOOGLE_SCHEMES:
        return GoogleStorage(settings.endpoint if settings else None)
    if name in S3_SCHEMES or settings is not None:
        return S3Storage.of(settings, environ)
    return None


def log_store_key(name: str) -> str:
    """Return the setting that names Delta's log store for a scheme."""
    return f"spark.delta.logStore.{name}.impl"


def _is_plain(endpoint: str | None) -> bool:
    return (endpoint or "").startswith("http://")


def _credentials(
    names: Mapping[str, Sequence[str]], settings: StorageSettings | None, environ: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the value of each key: the config's, else that of its first variable that is set and not empty."""
    return {
        name: getattr(settings, name, None) or next((environ[each] for each in variables if environ.get(each)), None)
        for name, variables in names.items()
    }
