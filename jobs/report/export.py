"""`tidemark report`: write the facts to one HTML file. Starts no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.process.atomic_file import whole
from jobs.report.page import page
from jobs.report.summary import verdict

if TYPE_CHECKING:
    from pathlib import Path


def make_report(found: dict[str, Any], output: Path) -> str:
    """Write the report.

    Args:
        found: What `jobs.report.facts.facts` returned.
        output: The file; an existing one is replaced.

    Returns:
        A line that says what was written.

    Raises:
        UsageError: The file cannot be written.
    """
    html = page(found)
    with whole(output) as unfinished:
        unfinished.write_text(html, encoding="utf-8")
    return f"{output} ({len(html.encode()) // 1000:,} kB). {verdict(found)['headline']}."
