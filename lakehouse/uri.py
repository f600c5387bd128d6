"""Schemes of the URIs of tables."""

import re

S3_SCHEMES = ("s3", "s3a")
AZURE_SCHEMES = ("abfss", "abfs")
GOOGLE_SCHEMES = ("gs",)
STORE_SCHEMES = (*S3_SCHEMES, *AZURE_SCHEMES, *GOOGLE_SCHEMES)


def is_uri(location: str) -> bool:
    """Whether a place names its file system (s3://, abfss://, dbfs:/, file:/), so that it is relative to no folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", location) is not None


def scheme(location: str) -> str:
    """Return the scheme of a URI; empty for a path.

    >>> scheme("s3://bucket/lake"), scheme("/data/lake")
    ('s3', '')
    """
    return location.partition("://")[0].lower() if "://" in location else ""
