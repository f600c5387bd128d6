"""The look of the report's charts, as Vega-Lite. The page filters and supplies their data.

Colours are CSS variables of the page, so that charts follow light, dark and print as the rest of it does.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import altair as alt

from lakehouse.contracts.gate import CRITICAL, WARN
from lakehouse.contracts.silver import CLASSES
from tidemark.runner.summary import STAGES

# altair's chained methods return untyped values.
Drawn: TypeAlias = Any

_BAR_PIXELS = 18


def charts() -> dict[str, dict[str, Any]]:
    """Return the Vega-Lite specification of each chart by its name; each has one data set of the same name."""
    alt.data_transformers.disable_max_rows()
    made = {
        "lag": _lag(),
        "loads": _loads(),
        "kept_out": _kept_out(),
        "streams": _streams(),
        "jumps": _jumps(),
        "gate": _gate(),
        "runs": _runs(),
    }
    return {name: _finished(chart, name).to_dict() for name, chart in made.items()}


def css_name(what: str) -> str:
    """Return the CSS variable of the colour of a class, severity, stage or mark."""
    return f"var(--c-{what.replace('_', '-')})"


def _finished(chart: Drawn, name: str) -> Drawn:
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    whole = chart.properties(data=alt.NamedData(name), width="container", autosize=fit)
    text = {"labelColor": css_name("ink"), "titleColor": css_name("ink"), "labelFontSize": 12, "titleFontSize": 12}
    lines = {"gridColor": css_name("grid"), "domainColor": css_name("grid"), "tickColor": css_name("grid")}
    font = "system-ui, sans-serif"
    # No ARIA labels: the tables hold the same numbers, for readers who do not see the marks.
    return (
        whole.configure(font=font, background="transparent", aria=False)
        .configure_mark(aria=False)
        .configure_axis(**text, **lines, titleFontWeight="normal", labelLimit=150, labelOverlap=True)
        .configure_legend(labelColor=css_name("ink"), labelFontSize=12, symbolType="square", orient="top", title=None)
        .configure_view(stroke=None)
    )


def _colour(field: str, values: tuple[str, ...], *, legend: bool) -> alt.Color:
    scale = alt.Scale(domain=list(values), range=[css_name(value) for value in values])
    return alt.Color(f"{field}:N", scale=scale, legend=alt.Legend() if legend else None)


def _bars(height: Any = alt.Undefined, **mark: Any) -> Drawn:
    return alt.Chart(height=height).mark_bar(stroke=css_name("page"), strokeWidth=0.5, **mark)


def _by(field: str, title: str) -> alt.X:
    return alt.X(field, sort=None, axis=alt.Axis(title=title, labelAngle=0))


def _by_place() -> alt.Y:
    return alt.Y("place:N", title=None, sort=None)


def _amount(channel: Drawn, field: str, title: str) -> Drawn:
    return channel(field, title=title, axis=alt.Axis(format="~s", tickCount=4))


def _tooltips(*named: tuple[str, ...]) -> list[alt.Tooltip]:
    """Return tooltips, each from a field, a title and perhaps a number format."""
    return [alt.Tooltip(field, title=title, format=form[0] if form else alt.Undefined) for field, title, *form in named]


_RECORDS = (("loads:O", "load"), ("when:N", "claimed"), ("class:N", "class"), ("records:Q", "records", ","))


def _lag() -> Drawn:
    return _bars(alt.Step(_BAR_PIXELS), color=css_name("lag")).encode(
        x=_amount(alt.X, "lag:Q", "offsets behind"),
        y=_by_place(),
        tooltip=_tooltips(("place:N", "partition"), ("lag:Q", "offsets behind", ",")),
    )


def _loads() -> Drawn:
    return _bars(120, color=css_name(CLASSES[0])).encode(
        x=_by("loads:O", "load"), y=_amount(alt.Y, "sum(records):Q", "accepted"), tooltip=_tooltips(*_RECORDS)
    )


def _kept_out() -> Drawn:
    return _bars(200).encode(
        x=_by("loads:O", "load"),
        y=_amount(alt.Y, "sum(records):Q", "other classes"),
        color=_colour("class", CLASSES, legend=False),
        order="order:Q",
        tooltip=_tooltips(*_RECORDS),
    )


def _streams() -> Drawn:
    return _bars(alt.Step(_BAR_PIXELS)).encode(
        x=_amount(alt.X, "sum(records):Q", "records"),
        y=_by_place(),
        color=_colour("class", CLASSES, legend=False),
        order="order:Q",
        tooltip=_tooltips(("place:N", "stream"), ("class:N", "class"), ("records:Q", "records", ",")),
    )


def _jumps() -> Drawn:
    return _bars(140).encode(
        x=_by("loads:O", "load"),
        y=_amount(alt.Y, "sum(jumps):Q", "jumps"),
        color=_colour("direction", ("forward", "backward"), legend=True),
        tooltip=_tooltips(("loads:O", "load"), ("direction:N", "direction"), ("count:Q", "jumps", ",")),
    )


def _gate() -> Drawn:
    x = _by("run:O", "gate runs, the latest last")
    y = alt.Y("sum(unmet):Q", title="not met", axis=alt.Axis(tickMinStep=1, tickCount=4, format="d"))
    verdict = _tooltips(("when:N", "evaluated"), ("load:Q", "up to load"), ("verdict:N", "gate"))
    unmet = _tooltips(("severity:N", "severity"), ("unmet:Q", "not met"))
    colour = _colour("severity", (CRITICAL, WARN), legend=True)
    bars = _bars().encode(x=x, y=y, color=colour, order="order:Q", tooltip=[*verdict, *unmet])
    verdicts = ("passed", "failed")
    shape = alt.Shape("verdict:N", scale=alt.Scale(domain=list(verdicts), range=["circle", "cross"]), legend=None)
    points = alt.Chart().mark_point(filled=True, size=50, opacity=1)
    marks = points.encode(x=x, y=alt.datum(0), shape=shape, color=_colour("verdict", verdicts, legend=True), tooltip=verdict)
    return alt.layer(bars, marks, height=140).resolve_scale(color="independent")


def _runs() -> Drawn:
    return _bars(160).encode(
        x=_by("run:O", "runs, the latest last"),
        y=alt.Y("sum(seconds):Q", title="seconds", axis=alt.Axis(tickCount=4)),
        color=_colour("stage", STAGES, legend=True),
        order="order:Q",
        tooltip=_tooltips(("when:N", "started"), ("stage:N", "stage"), ("seconds:Q", "seconds", ",.1f")),
    )
