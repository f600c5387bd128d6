"""A search of every file under a folder, unpacked, for some bytes."""

import subprocess
from pathlib import Path

import duckdb


def files_with(root: Path, text: bytes) -> list[str]:
    """The files whose bytes, or whose rows as DuckDB reads them, hold a text; plain ASCII, so that no JSON escapes it."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and text in _whole(path))


def _whole(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".parquet":
        content += repr(duckdb.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()).encode()
    if path.suffix in (".gz", ".zst"):
        program = {".gz": "gzip", ".zst": "zstd"}[path.suffix]
        content += subprocess.run([program, "-dc", str(path)], capture_output=True, check=True).stdout
    return content
