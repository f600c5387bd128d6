"""One browser for the tests of this folder. Where the machine has none they are skipped, and say how to get one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import browser as browsers
from tests.support.browser import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The one browser of the test process."""
    if browsers.executable() is None:
        pytest.skip(browsers.MISSING)
    with browsers.open_browser() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Opens a file in a window of its own, of which the test says what it is like, and without a network."""
    contexts: list[BrowserContext] = []

    def open_file(file: Path, **window: object) -> Opened:
        contexts.append(browser.new_context(offline=True, **window))  # type: ignore[arg-type] # passed on as the test has them
        opened = Opened(contexts[-1].new_page())
        opened.load(file)
        return opened

    yield open_file
    for context in contexts:
        context.close()
