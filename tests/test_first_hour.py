"""The tutorial and the script that plays it are the same."""

from __future__ import annotations

import re

from tests import first_hour


def test_the_page_has_the_commands_of_the_script_in_their_order() -> None:
    page = first_hour.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"```sh\n(.*?)\n```", page, re.DOTALL) == first_hour.commands()
    for text in (first_hour.PRODUCER, first_hour.CRON, first_hour.SYSTEMD):
        assert text.rstrip() in page


def test_what_a_step_must_print_is_what_the_page_shows() -> None:
    page = first_hour.PAGE.read_text(encoding="utf-8")
    shown = [step for step in first_hour.STEPS if step.is_shown]
    assert [text for step in shown for text in step.says if text.rstrip("\n") not in page] == []


def test_the_first_hour_goes_as_the_page_says() -> None:
    first_hour.main([])
