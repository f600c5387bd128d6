"""The facts of a report as one HTML file, which makes no requests and runs nothing that a producer sent.

Jinja2 escapes all text, also inside the charts' data. A Content-Security-Policy names the page's own scripts and styles by
their hashes, so nothing else would run.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lakehouse import __version__
from tidemark.extras.report.chart_data import chart_data
from tidemark.extras.report.charts import charts
from tidemark.extras.report.summary import tiles, verdict
from tidemark.extras.report.tables import tables
from tidemark.extras.report.text import moment
from tidemark.process.atomic_file import whole

_HERE = Path(__file__).with_name("assets")
_VEGA = "window.vegaEmbed = vegaEmbed;"


def page(found: dict[str, Any]) -> str:
    """Render the facts of `tidemark.extras.report.facts.facts` as HTML."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["moment"] = moment
    scripts = _scripts()
    style = _file("report.css")
    return environment.get_template("report.html.j2").render(
        facts=found,
        verdict=verdict(found),
        tiles=tiles(found),
        tables=tables(found),
        data=chart_data(found),
        specs=_specs(),
        scripts=[Markup(script) for script in scripts],  # noqa: S704 -- our own file, and Vega's
        style=Markup(style),  # noqa: S704 -- our own file
        policy=_policy(scripts, style),
        version=__version__,
    )


@functools.cache
def _scripts() -> list[str]:
    return [_script(vl_convert.javascript_bundle(_VEGA)), _script(_file("report.js"))]


@functools.cache
def _specs() -> dict[str, Any]:
    return {name: vl_convert.vegalite_to_vega(chart) for name, chart in charts().items()}


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _script(text: str) -> str:
    """Escape the tag that would end a script inside HTML."""
    return text.replace("\r", "").replace("</script", "<\\/script")


def _policy(scripts: list[str], style: str) -> str:
    allowed = " ".join(_hash(script) for script in scripts)
    # Vega sets single properties of its SVG by style attributes; these cannot load or run anything.
    return (
        f"default-src 'none'; script-src {allowed}; style-src-elem {_hash(style)}; style-src-attr 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def make_report(found: dict[str, Any], output: Path) -> str:
    """Write the report to a file, and return a line that says so.

    Raises:
        UsageError: The file cannot be written.
    """
    html = page(found)
    with whole(output) as unfinished:
        unfinished.write_text(html, encoding="utf-8")
    return f"{output} ({len(html.encode()) // 1000:,} kB). {verdict(found)['headline']}."
