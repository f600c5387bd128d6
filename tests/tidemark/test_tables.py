"""How wide a table is that people read."""

import sys

import pytest

from tidemark.process.output import write_table

COLUMNS = ["topic", "partition", "records", "accepted", "duplicate", "high_watermark_after", "last_offset"]
COLUMNS += ["missing", "jumps_forward", "jumps_backward"]
ROWS = [["orders", 0, 524, 499, 25, 1000, 523, 500, 522, 1]]


def test_a_table_wider_than_a_hundred_columns_has_its_headings_over_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(COLUMNS, ROWS)
    assert capsys.readouterr().out == (
        "\n"
        "                                                  high_\n"
        "                                                  watermark_  last_            jumps_   jumps_\n"
        " topic   partition  records  accepted  duplicate  after       offset  missing  forward  backward\n"
        " ───────────────────────────────────────────────────────────────────────────────────────────────\n"
        " orders          0      524       499         25        1000     523      500      522         1\n"
    )


def test_a_narrow_table_keeps_headings_on_one_line_and_hostile_texts_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(["last_offset", "seen at"], [[1, "noon"]])
    assert capsys.readouterr().out.splitlines()[1] == " last_offset   seen at"
    write_table(["", "_", "a\nb \x1b[31m_c", "x" * 100], [["", "", "", "red \x1b[31m [bold]x[/bold]"]])
    printed = capsys.readouterr().out
    assert ("\x1b" in printed, "\\n" in printed) == (False, True)
    assert r"red \x1b[31m [bold]x[/bold]" in printed


def test_on_a_narrow_terminal_each_row_is_a_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    write_table(COLUMNS, ROWS)
    assert "high_watermark_after  1000" in capsys.readouterr().out
