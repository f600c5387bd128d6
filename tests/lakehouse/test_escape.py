"""What leaves for a terminal, a log, a CSV file or an alert holds nothing that steers its reader."""

import csv
import io
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from lakehouse.errors import BreakerOpenError, TidemarkError
from lakehouse.escape import csv_text, json_text, part_of_error, printable
from tests.support.examples import examples
from tidemark.extras.watch import metrics
from tidemark.process import exit_codes, output

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[])) | st.text(
    '\x00\x1b\r\n\u009b\u202e\u200b\u2028\ud800=+-@\uff1d;"\t\x7f'
)
FORGED = 'x\x1b]0;owned\x07\u009b2J\u202e\u200b\n{"event": "run.finished", "level": "info"}\r\n'


def is_harmless(text: str) -> bool:
    return all(each.isprintable() or each == "\n" for each in text)


@given(ANY_TEXT)
@settings(max_examples=examples(100, 1000))
def test_every_way_out_is_harmless_and_json_reads_back_as_it_was(text: str) -> None:
    assert printable(text).isprintable()
    assert csv_text(text).isprintable()
    assert is_harmless(part_of_error(text))
    for indent in (None, 2):
        for is_ascii in (False, True):
            written = json_text({text: [text]}, indent=indent, is_ascii=is_ascii)
            assert is_harmless(written)
            assert json.loads(written) == {text: [text]}


@given(ANY_TEXT, st.sampled_from(",;"))
@settings(max_examples=examples(100, 1000))
def test_no_cell_of_csv_is_a_formula(text: str, separator: str) -> None:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["x", csv_text(text)])
    for cell in next(csv.reader([line.getvalue()], delimiter=separator), []):
        bare = cell.removesuffix('"').lstrip("+-").replace(".", "").replace("e", "").replace("E", "")
        is_number = bare.replace("-", "").replace("+", "").isdigit()
        assert not cell.startswith((*"=+-@\t\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")) or is_number, cell


def test_a_formula_of_csv_is_none_wherever_a_spreadsheet_splits_and_numbers_stay(capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20x", "a;=1+1", 'a; "=1+1"', "a;-5", "a;=cmd|' /C calc'!A0;b"]
    output.write_csv(["name"], [(each,) for each in cells])
    output.write_csv(["a", "b", "c", "d"], [(-5, "=1+1", "-5", "@x")])
    assert capsys.readouterr().out.splitlines() == [
        *("name", "'\uff1d1+1", "'\uff0b1", "'\uff0d1", "'\uff20x"),
        *("a;'=1+1", '"a;\' ""=1+1"""', "a;-5", "a;'=cmd|' /C calc'!A0;b"),
        *("a,b,c,d", "-5,'=1+1,-5,'@x"),
    ]


def test_an_error_is_lines_that_nothing_in_it_forges(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise BreakerOpenError(f"{FORGED} opened.", where=FORGED, observed=FORGED, expected=FORGED, next_step=FORGED)

    def fail_unexpectedly() -> None:
        raise ValueError(f'x\x1b]0;owned\x07\u009b2J\u202e\n{{"event": "run.finished"}}\n{FORGED}') from KeyError(FORGED)

    assert exit_codes.exit_code_of(fail) == 5
    said = capsys.readouterr().err
    assert is_harmless(said)
    assert all(line.startswith(("tidemark: ", "  ")) for line in said.splitlines())
    assert not any(line.lstrip().startswith("{") for line in said.splitlines())
    assert exit_codes.exit_code_of(fail_unexpectedly) == 1
    said = capsys.readouterr().err
    assert is_harmless(said)
    assert "run.finished" in said
    assert all(line.startswith(("  | ", "tidemark: unexpected ValueError")) for line in said.splitlines()[1:]), said
    assert TidemarkError("x", where=FORGED).where == FORGED, "programs get the parts whole"


def test_tables_and_metrics_hold_no_foreign_escape(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    metrics.show("p\x1b", [("tidemark_last_offset", ("t\u009b\n", "0"), 7)])
    assert is_harmless(generate_latest(metrics._REGISTRY).decode())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    output.write_table([FORGED], [(FORGED,)], title=FORGED)
    said = capsys.readouterr().out
    assert "\x1b]0;" not in said
    assert "\u009b" not in said
