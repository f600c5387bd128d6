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
from lakehouse.contracts.gate import CRITICAL, WARN
from tidemark.extras.report.charts import charts
from tidemark.extras.report.summary import tiles, verdict
from tidemark.extras.report.tables import tables
from tidemark.extras.report.text import classes, loads_of, moment, place, text
from tidemark.process.output import whole
from tidemark.runner.summary import STAGES

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


def _script(source: str) -> str:
    """Escape the tag that would end a script inside HTML."""
    return source.replace("\r", "").replace("</script", "<\\/script")


def _policy(scripts: list[str], style: str) -> str:
    allowed = " ".join(_hash(script) for script in scripts)
    # Vega sets single properties of its SVG by style attributes; these cannot load or run anything.
    return (
        f"default-src 'none'; script-src {allowed}; style-src-elem {_hash(style)}; style-src-attr 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def make_report(found: dict[str, Any], output: Path) -> str:
    """Write the report to a file, and return a line that says so. UsageError if the file cannot be written."""
    html = page(found)
    with whole(output) as unfinished:
        unfinished.write_text(html, encoding="utf-8")
    return f"{output} ({len(html.encode()) // 1000:,} kB). {verdict(found)['headline']}."


def chart_data(found: dict[str, Any]) -> dict[str, Any]:
    """Return the data that `report.js` reads, from `tidemark.extras.report.facts.facts`; the script says how."""
    at = {(row["topic"], row["partition"]): number for number, row in enumerate(found["partitions"])}
    counted = (*classes(found), "jumps_forward", "jumps_backward")
    return {
        "classes": classes(found),
        "partitions": [[text(row["topic"]), place(row), row["lag"]] for row in found["partitions"]],
        "streams": [
            [text(row["topic"]), text(row["producer"] or ""), place(row), at.get((row["topic"], row["partition"]), -1)]
            for row in found["streams"]
        ],
        "others": found["stream_count"] - len(found["streams"]),
        "slices": [[loads_of(row), moment(row["last_claimed_at"])] for row in found["slices"]],
        "history": [[row["stream"], row["slice"], *(row[name] for name in counted)] for row in found["history"]],
        "gate": _gate_runs(found["gate_runs"]),
        "runs": _runs(found["runs"]),
    }


def _gate_runs(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "run": number,
            "when": moment(run["evaluated_at"]),
            "load": run["last_load_seq"],
            "verdict": "passed" if run["passed"] else "failed",
            "severity": severity,
            "order": order,
            "unmet": run[f"unmet_{severity}"],
        }
        for number, run in enumerate(reversed(runs), start=1)
        for order, severity in enumerate((CRITICAL, WARN))
    ]


def _runs(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "run": number,
            "when": moment(run["started_at"]),
            "stage": stage,
            "order": order,
            "seconds": run["stages"].get(stage, 0),
        }
        for number, run in enumerate(reversed(runs), start=1)
        for order, stage in enumerate(STAGES)
    ]
