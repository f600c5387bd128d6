"""The report in a real browser, from disk, over hostile names and values of producers."""

import contextlib
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from lakehouse.contracts.silver import CLASSES
from tests.support import browser as browsers
from tests.support.browser import Opened
from tests.support.report_tables import HOSTILE, Shape, write_lake
from tests.support.small_config import write_config
from tests.tidemark.conftest import rows
from tidemark.commands import main
from tidemark.extras.report.text import text

Open = Callable[..., Opened]

pytestmark = pytest.mark.browser

CHARTS = ("lag", "loads", "kept_out", "streams", "jumps", "gate", "runs")
ROWS = "document.querySelectorAll('#table-{} tbody tr:not([hidden])')"
CELLS = f"[...{ROWS}].map(row => [...row.cells].filter(cell => !cell.hidden).map(cell => cell.textContent))"


def cells(page: Page, table: str) -> list[list[str]]:
    found: list[list[str]] = page.evaluate(CELLS.format(table))
    return found


def number(shown: str) -> int:
    return int(shown.replace(",", ""))


def report_of(lake: Path, folder: Path) -> Path:
    config, file = write_config(folder, root=str(lake)), folder / "report.html"
    assert main(["report", "--config", str(config), "--offline", "-o", str(file)]) == 0
    return file


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    write_lake(folder, Shape())
    return folder


@pytest.fixture(scope="module")
def report(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_of(lake, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if browsers.executable() is None:
        pytest.skip(browsers.MISSING)
    with browsers.open_browser() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    with contextlib.ExitStack() as windows:

        def open_file(file: Path, **window: Any) -> Opened:
            opened = Opened(windows.enter_context(browser.new_context(offline=True, **window)).new_page())
            opened.load(file)
            return opened

        yield open_file


def test_it_draws_every_chart_from_disk_without_requests_and_the_verdict_comes_first(open_page: Open, report: Path) -> None:
    opened = open_page(report)
    page = opened.page
    assert [name for name in CHARTS if page.locator(f"#chart-{name} svg").count() == 1] == list(CHARTS)
    assert (opened.complaints, opened.requests) == ([], [])
    first = page.locator("main > *").first
    assert first.locator("h2").inner_text().endswith("The gate passed")
    assert "budget_late failed" in first.inner_text()
    assert page.title().startswith("The gate passed")


def test_every_number_of_tables_and_charts_is_the_one_that_sql_finds(open_page: Open, report: Path, lake: Path) -> None:
    page = open_page(report).page
    heads = page.locator("#table-classes th").all_inner_texts()
    classes = [name for name in CLASSES if name.capitalize() in heads]
    assert rows(lake, f"SELECT count(*), sum({' + '.join(classes)} - records) FROM silver_loads") == [(64, 0)]
    sums = ", ".join(f"sum({name})" for name in classes)

    by_stream = rows(lake, f"SELECT topic, partition, producer, sum(records), {sums} FROM silver_loads GROUP BY ALL")
    assert {
        (row[0], int(row[1]), row[2]): tuple(number(cell) for cell in row[3:] if not cell.endswith("%"))
        for row in cells(page, "classes")
    } == {(topic, partition, text(producer)): tuple(map(int, counts)) for topic, partition, producer, *counts in by_stream}

    by_load = f"SELECT load_seq, {sums} FROM silver_loads GROUP BY load_seq ORDER BY load_seq DESC"
    assert [[int(row[0]), *map(number, row[2:])] for row in cells(page, "loads")] == [list(row) for row in rows(lake, by_load)]

    [(records, held)] = rows(lake, "SELECT (SELECT sum(records) FROM silver_loads), (SELECT sum(records) FROM silver_rejects)")
    numbers = dict(zip(page.locator("dt").all_inner_texts(), page.locator("dd.number").all_inner_texts(), strict=True))
    assert (number(numbers["Records decided"]), number(numbers["In quarantine"])) == (records, held)

    assert number(numbers["Behind Bronze"]) == rows(lake, "SELECT sum(offsets) FROM lag")[0][0]
    ranges = rows(lake, "SELECT topic, partition, first_sequence, last_sequence, sequences FROM silver_missing")
    assert sorted((row[0], *(int(row[at]) for at in (1, 4, 5, 6))) for row in cells(page, "missing")) == sorted(ranges)

    bars = page.locator("#chart-loads path[aria-roledescription=bar], #chart-loads .mark-rect path")
    assert bars.count() == Shape().loads
    bars.nth(2).hover()
    [(accepted,)] = rows(lake, "SELECT sum(accepted) FROM silver_loads WHERE load_seq = 3")
    tip = page.locator(".tip").inner_text()
    assert [each for each in (f"records: {accepted:,}", "load: 3") if each not in tip] == []


def test_filters_narrow_tables_charts_and_sums_together_and_a_click_sorts(open_page: Open, report: Path, lake: Path) -> None:
    opened = open_page(report)
    page = opened.page
    bars = page.locator("#chart-streams .mark-rect path")
    before = bars.count()

    opened.settle(lambda: page.locator("#topic").fill("PAY"))
    opened.settle(lambda: page.locator("#producer").fill("ann"))

    assert {(row[0], row[2]) for row in cells(page, "classes")} == {("payments", "ann")}
    where = "topic = 'payments' AND producer = 'ann'"
    [(streams, records)] = rows(lake, f"SELECT count(DISTINCT partition), sum(records) FROM silver_loads WHERE {where}")
    assert page.locator("#told").inner_text() == f"{streams} of 8 streams, {records:,} records"
    late = rows(lake, f"SELECT sum(late) FROM silver_loads WHERE {where} GROUP BY load_seq ORDER BY load_seq DESC")
    assert [(number(row[4]),) for row in cells(page, "loads")] == late
    assert 0 < bars.count() < before

    opened.settle(lambda: page.locator("input[value=late]").uncheck())
    heads = page.locator("#table-loads th:not([hidden])").all_inner_texts()
    assert "Late" not in heads
    assert "Duplicate" in heads
    assert cells(page, "quarantine") == []

    opened.settle(lambda: page.locator("button[type=reset]").click())
    assert len(cells(page, "classes")) == 8
    assert bars.count() == before

    head = page.locator("#table-classes th", has_text="Duplicate")
    for is_falling in (True, False):
        head.locator("button").click()
        found = [number(row[5]) for row in cells(page, "classes")]
        assert found == sorted(found, reverse=is_falling)
        assert head.get_attribute("aria-sort") == ("descending" if is_falling else "ascending")
    assert opened.complaints == []


def test_a_producers_name_is_text_and_never_runs(open_page: Open, report: Path) -> None:
    opened = open_page(report)
    page = opened.page
    opened.settle(lambda: page.locator("#producer").fill("<script>"))
    assert page.evaluate("'pwned' in window") is False
    assert {row[2] for row in cells(page, "classes")} == {text(HOSTILE)}
    assert text(HOSTILE)[:40] in page.locator("#table-gate").inner_text()
    assert page.locator("main script, main img, #chart-streams script, #chart-streams img").count() == 0
    page.locator("#chart-streams .mark-rect path").first.hover()
    assert "<script>" in page.locator(".tip").inner_text()
    assert opened.complaints == []


def test_no_hostile_text_is_in_the_file_and_no_script_in_it_is_run(open_page: Open, report: Path, tmp_path: Path) -> None:
    html = report.read_text(encoding="utf-8")
    assert [text for text in ("<!--", "<script>window.pwned", "\u2028") if text in html] == []
    planted = tmp_path / "planted.html"
    planted.write_text(html.replace("<h1>", "<script>window.pwned = 1</script><h1>", 1), encoding="utf-8")
    opened = open_page(planted)
    assert opened.page.evaluate("'pwned' in window") is False
    assert "Content Security Policy" in " ".join(opened.complaints)


def test_at_400_pixels_tables_scroll_sideways_in_their_boxes_and_the_page_does_not(open_page: Open, report: Path) -> None:
    page = open_page(report, viewport={"width": 400, "height": 800}).page
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 400
    widths = page.evaluate(
        "[...document.querySelectorAll('svg, .box, form, .tiles')].map(each => each.getBoundingClientRect().right)"
    )
    assert max(widths) <= 400
    assert page.evaluate("(box => box.scrollWidth > box.clientWidth)(document.querySelector('#table-classes'))")


def test_the_keyboard_reaches_the_report_and_its_filters_with_a_visible_focus(open_page: Open, report: Path) -> None:
    opened = open_page(report)
    page = opened.page

    def focused() -> list[str]:
        look = "e => [e.id || e.value || e.className || e.tagName, getComputedStyle(e).outlineStyle]"
        found: list[str] = page.evaluate(f"({look})(document.activeElement)")
        return found

    page.keyboard.press("Tab")
    assert focused()[0] == "skip"
    page.keyboard.press("Enter")
    assert focused()[0] == "main"
    page.keyboard.press("Tab")
    assert focused() == ["topic", "solid"]
    opened.settle(lambda: page.keyboard.type("x"))
    opened.settle(lambda: page.keyboard.press("Backspace"))
    for name in ("producer", "accepted"):
        page.keyboard.press("Tab")
        assert focused() == [name, "solid"]
    opened.settle(lambda: page.keyboard.press("Space"))
    assert "Accepted" not in page.locator("#table-loads th:not([hidden])").all_inner_texts()
    page.locator("#table-streams").focus()
    assert focused()[0] == "table-streams"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_and_charts_follow_the_systems_colours_and_paper_is_light(scheme: str, open_page: Open, report: Path) -> None:
    page = open_page(report, color_scheme=scheme).page
    ink, ground = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    assert page.evaluate("getComputedStyle(document.querySelector('#chart-loads svg text')).fill") == ink
    light = [sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) for colour in (ink, ground)]
    assert (light[0] < light[1]) is (scheme == "light")

    page.emulate_media(media="print")  # whole, and without filters
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("form.filters").is_hidden()
    assert page.evaluate("getComputedStyle(document.querySelector('.box')).maxHeight") == "none"
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme: str, open_page: Open, report: Path) -> None:
    page = open_page(report, color_scheme=scheme, viewport={"width": 400, "height": 900}).page
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
    for width in (400, 1200):
        page.set_viewport_size({"width": width, "height": 900})
        found = page.evaluate("axe.run().then(all => all.violations.map(each => [each.id, each.nodes.map(node => node.html)]))")
        assert found == [], width


def test_before_the_first_run_the_report_says_so(open_page: Open, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    opened = open_page(report_of(tmp_path / "empty", tmp_path))
    said = opened.page.locator("main").inner_text()
    assert [each for each in ("The gate has not run", "tidemark run") if each not in said] == []
    assert opened.complaints == []
