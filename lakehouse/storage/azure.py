"""Azure Data Lake Storage: `abfss://container@account.dfs.core.windows.net/lake`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from lakehouse.storage.given import found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyarrow.fs import FileSystem

    from lakehouse.settings.pipeline import StorageSettings

_ENVIRONMENT = {
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
    "tenant_id": ("AZURE_TENANT_ID",),
    "client_id": ("AZURE_CLIENT_ID",),
    "client_secret": ("AZURE_CLIENT_SECRET",),
}
_PRINCIPAL = ("tenant_id", "client_id", "client_secret")
_LOGIN = "https://login.microsoftonline.com"


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
        known = found(_ENVIRONMENT, given, environ)
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

    def files(self) -> FileSystem:
        """See `Storage`."""
        from pyarrow.fs import AzureFileSystem

        principal = {name: getattr(self, name) for name in _PRINCIPAL}
        place = {}
        if self.endpoint:
            kind = self.endpoint.partition("://")[0]
            place = {f"{each}_storage_authority": self._authority for each in ("blob", "dfs")}
            place |= {f"{each}_storage_scheme": kind for each in ("blob", "dfs")}
        return AzureFileSystem(self._account, account_key=self.account_key, **principal, **place)

    @property
    def _account(self) -> str:
        return self.host.partition(".")[0]

    @property
    def _authority(self) -> str:
        return (self.endpoint or "").partition("://")[2].rstrip("/")
