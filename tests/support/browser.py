"""A real browser: the machine's own Chromium, driven by Playwright. Nothing is downloaded."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "No Chromium on the path: apt install chromium, or name one with TIDEMARK_CHROMIUM=/path/to/chromium."

_MILLISECONDS = 120_000


@dataclass
class Opened:
    """A page, with errors, warnings and exceptions of its console, and the addresses that it requested besides its own."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def load(self, file: Path) -> None:
        itself = file.as_uri()

        def on_console(told: ConsoleMessage) -> None:
            if told.type in ("error", "warning"):
                self.complaints.append(told.text)

        def on_request(request: Request) -> None:
            if request.url != itself:
                self.requests.append(request.url)

        self.page.on("console", on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", on_request)
        self.page.goto(itself, timeout=_MILLISECONDS)
        self.page.wait_for_selector("html[data-shown]", timeout=_MILLISECONDS)

    def settle(self, act: Callable[[], object]) -> None:
        """Do something to the filters, and wait until the page shows what follows from it."""
        shown = self.page.evaluate("document.documentElement.dataset.shown")
        act()
        # A selector: to wait for a function, Playwright makes code from text, which the page's policy refuses.
        self.page.wait_for_selector(f"html:not([data-shown='{shown}'])", timeout=_MILLISECONDS)


def executable() -> str | None:
    return os.environ.get("TIDEMARK_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    program = executable()
    if program is None:
        raise RuntimeError(MISSING)
    # Root has no sandbox in Chromium; a container's /dev/shm is often too small for it.
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=_MILLISECONDS)
        try:
            yield browser
        finally:
            browser.close()
