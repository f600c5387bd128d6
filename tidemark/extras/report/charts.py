"""The look of the report's charts, as Vega-Lite. The page filters and supplies their data.

Colours are CSS variables of the page, so that charts follow light, dark and print as the rest of it does.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import altair as alt

from lakehouse.contracts.gate import CRITICAL, WARN
from lakehouse.contracts.silver import CLASSES

# altair's chained methods return untyped values.
Drawn: TypeAlias = Any

STAGES = ("bronze", "silver", "gate", "gold")
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


def _bars() -> dict[str, Any]:
    return {"stroke": css_name("page"), "strokeWidth": 0.5}


def _over_loads(height: int) -> tuple[alt.Chart, alt.X]:
    axis = alt.Axis(title="load", labelAngle=0)
    return alt.Chart(height=height), alt.X("loads:O", sort=None, axis=axis)


def _count(title: str) -> alt.Y:
    return alt.Y("sum(records):Q", title=title, axis=alt.Axis(format="~s", tickCount=4))


def _records_tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("loads:O", title="load"),
        alt.Tooltip("when:N", title="claimed"),
        alt.Tooltip("class:N", title="class"),
        alt.Tooltip("records:Q", title="records", format=","),
    ]


def _lag() -> Drawn:
    return (
        alt.Chart(height=alt.Step(_BAR_PIXELS))
        .mark_bar(**_bars(), color=css_name("lag"))
        .encode(
            x=alt.X("lag:Q", title="offsets behind", axis=alt.Axis(format="~s", tickCount=4)),
            y=alt.Y("place:N", title=None, sort=None),
            tooltip=[alt.Tooltip("place:N", title="partition"), alt.Tooltip("lag:Q", title="offsets behind", format=",")],
        )
    )


def _loads() -> Drawn:
    chart, x = _over_loads(120)
    return chart.mark_bar(**_bars(), color=css_name(CLASSES[0])).encode(x=x, y=_count("accepted"), tooltip=_records_tooltip())


def _kept_out() -> Drawn:
    chart, x = _over_loads(200)
    colour = _colour("class", CLASSES, legend=False)
    return chart.mark_bar(**_bars()).encode(
        x=x, y=_count("other classes"), color=colour, order="order:Q", tooltip=_records_tooltip()
    )


def _streams() -> Drawn:
    return (
        alt.Chart(height=alt.Step(_BAR_PIXELS))
        .mark_bar(**_bars())
        .encode(
            x=alt.X("sum(records):Q", title="records", axis=alt.Axis(format="~s", tickCount=4)),
            y=alt.Y("place:N", title=None, sort=None),
            color=_colour("class", CLASSES, legend=False),
            order="order:Q",
            tooltip=[
                alt.Tooltip("place:N", title="stream"),
                alt.Tooltip("class:N", title="class"),
                alt.Tooltip("records:Q", title="records", format=","),
            ],
        )
    )


def _jumps() -> Drawn:
    chart, x = _over_loads(140)
    return chart.mark_bar(**_bars()).encode(
        x=x,
        y=alt.Y("sum(jumps):Q", title="jumps", axis=alt.Axis(format="~s", tickCount=4)),
        color=_colour("direction", ("forward", "backward"), legend=True),
        tooltip=[
            alt.Tooltip("loads:O", title="load"),
            alt.Tooltip("direction:N", title="direction"),
            alt.Tooltip("count:Q", title="jumps", format=","),
        ],
    )


def _gate() -> Drawn:
    x = alt.X("run:O", sort=None, axis=alt.Axis(title="gate runs, the latest last", labelAngle=0))
    tooltip = [
        alt.Tooltip("when:N", title="evaluated"),
        alt.Tooltip("load:Q", title="up to load"),
        alt.Tooltip("verdict:N", title="gate"),
        alt.Tooltip("severity:N", title="severity"),
        alt.Tooltip("unmet:Q", title="not met"),
    ]
    y = alt.Y("sum(unmet):Q", title="not met", axis=alt.Axis(tickMinStep=1, tickCount=4, format="d"))
    bars = (
        alt.Chart()
        .mark_bar(**_bars())
        .encode(x=x, y=y, color=_colour("severity", (CRITICAL, WARN), legend=True), order="order:Q", tooltip=tooltip)
    )
    verdicts = ("passed", "failed")
    shape = alt.Shape("verdict:N", scale=alt.Scale(domain=list(verdicts), range=["circle", "cross"]), legend=None)
    marks = (
        alt.Chart()
        .mark_point(filled=True, size=50, opacity=1)
        .encode(x=x, y=alt.datum(0), shape=shape, color=_colour("verdict", verdicts, legend=True), tooltip=tooltip[:3])
    )
    return alt.layer(bars, marks, height=140).resolve_scale(color="independent")


def _runs() -> Drawn:
    return (
        alt.Chart(height=160)
        .mark_bar(**_bars())
        .encode(
            x=alt.X("run:O", sort=None, axis=alt.Axis(title="runs, the latest last", labelAngle=0)),
            y=alt.Y("sum(seconds):Q", title="seconds", axis=alt.Axis(tickCount=4)),
            color=_colour("stage", STAGES, legend=True),
            order="order:Q",
            tooltip=[
                alt.Tooltip("when:N", title="started"),
                alt.Tooltip("stage:N", title="stage"),
                alt.Tooltip("seconds:Q", title="seconds", format=",.1f"),
            ],
        )
    )
