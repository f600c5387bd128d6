"""Google Cloud Storage: `gs://bucket/lake`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_FILE_SYSTEM = "com.google.cloud.hadoop.fs.gcs."
_SIZES = {
    "block.size": 64,
    "inputstream.inplace.seek.limit": 8,
    "inputstream.min.range.request.size": 2,
    "outputstream.buffer.size": 8,
    "rewrite.max.chunk.size": 512,
}
"""In MiB, as the connector has them: it cannot read the defaults of Hadoop's own client, like `64m`."""
_RETRY_SECONDS = 30
"""How long Arrow retries. Its own default is 15 minutes."""


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

    def files(self) -> FileSystem:
        """See `Storage`."""
        from pyarrow.fs import GcsFileSystem

        scheme, _, host = (self.endpoint or "").rstrip("/").rpartition("://")
        return GcsFileSystem(
            anonymous=self._is_plain,
            scheme=scheme or None,
            endpoint_override=host or None,
            retry_time_limit=timedelta(seconds=_RETRY_SECONDS),
        )

    @property
    def _is_plain(self) -> bool:
        return (self.endpoint or "").startswith("http://")
