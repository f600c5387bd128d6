"""The chart of the peers: records per second on the one input that all of them take in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import vl_convert

from bench.peers.registry import FEW, FROM_BRONZE, FROM_KAFKA, TO_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.peers.figures import Figure

_OURS, _FLOOR, _EXACT, _WRONG = "Tidemark, exact", "copy, nothing decided", "peer, exact", "not exact on this input"
_COLOURS = {_OURS: "#0b6e99", _FLOOR: "#b8b8b8", _EXACT: "#7fb3c8", _WRONG: "#d98b5f"}
_WIDTH, _BAR = 460, 20


def svg(figures: Sequence[Figure]) -> str:
    """Bars of the medians with the least and the most, a panel for each way."""
    shown = [figure for figure in figures if figure.input == FEW.name]
    panels = [_panel(way, some) for way in (FROM_BRONZE, FROM_KAFKA, TO_TOPIC) if (some := _rows(shown, way))]
    # What altair's chained methods return has no type.
    chart: Any = alt.vconcat(*panels, spacing=18).configure(font="sans-serif", background="white")
    drawn = chart.configure_axis(labelLimit=330, titleFontWeight="normal").configure_view(stroke=None)
    made: str = vl_convert.vegalite_to_svg(drawn.resolve_scale(x="shared").to_dict())
    return made


def _rows(figures: Sequence[Figure], way: str) -> list[dict[str, object]]:
    return [
        {
            "peer": figure.peer.title,
            "rate": figure.records_per_second,
            "least": figure.records / max(figure.times),
            "most": figure.records / min(figure.times),
            "kind": _kind(figure),
        }
        for figure in figures
        if figure.peer.way == way
    ]


def _kind(figure: Figure) -> str:
    if figure.peer.name.startswith("copy"):
        return _FLOOR
    if not figure.counts.is_exact:
        return _WRONG
    return _OURS if figure.peer.name.startswith("ours") else _EXACT


def _panel(way: str, rows: list[dict[str, object]]) -> Any:
    colours = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    place = alt.Y("peer:N", sort=None, title=None)
    base: Any = alt.Chart(
        alt.InlineData(values=rows), width=_WIDTH, height=alt.Step(_BAR), title=alt.Title(way, anchor="start")
    )
    axis = alt.Axis(format="~s", tickCount=6)
    bars = base.mark_bar().encode(
        x=alt.X("rate:Q", title=f"records per second, {FEW.name}", axis=axis),
        y=place,
        color=alt.Color("kind:N", scale=colours, legend=alt.Legend(title=None, orient="bottom", columns=4)),
    )
    spread = base.mark_rule(strokeWidth=1.5).encode(x="least:Q", x2="most:Q", y=place)
    label = base.mark_text(align="left", dx=5, fontSize=10).encode(x="most:Q", y=place, text=alt.Text("rate:Q", format=",.0f"))
    return alt.layer(bars, spread, label)
