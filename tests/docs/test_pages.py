"""The documents: short where they begin, written from the code where the code knows, and a site that holds together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.docs import reference, site_hook

ROOT = Path(__file__).parents[2]
MOST_BYTES_OF_README = 8_000
LISTS = re.compile(r"\s*(?:[-*] |\d+\. |\||```)\S*")


def test_the_readme_is_short_and_what_is_written_from_the_code_is_current() -> None:
    assert (ROOT / "README.md").stat().st_size <= MOST_BYTES_OF_README
    for file, write in reference.PAGES.items():
        text = file.read_text(encoding="utf-8")
        assert text == write(text), "python -m tests.docs.reference writes it again"
    with pytest.raises(KeyError):
        reference.keys_page("| `kafka.topic` | text | required | The topic. | `t` |")


class Page(HTMLParser):
    """What a page of the site loads, and the lines of its paragraphs that a list or table should have become."""

    LOADED = frozenset({"script", "img", "source", "iframe", "link", "video", "audio", "object", "embed"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.leaked: list[str] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.LOADED:
            self.loaded += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "data"}]
        if tag in {"p", "code", "pre", "li"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["p"]:
            # A line of a paragraph begins behind a line end; what follows code or a link on its line does not.
            self.leaked += [line for line in data.split("\n")[1:] if LISTS.match(line)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    said = build(ROOT, folder)
    assert (folder / "index.html").is_file(), said
    return folder


def build(root: Path, folder: Path) -> str:
    """Build a site into a folder, and return what the builder said."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=300)
    said = built.stdout + built.stderr
    assert ("WARNING" in said, built.returncode) in {(False, 0), (True, 1)}, said
    return said


def test_a_link_that_leads_nowhere_fails_the_site(tmp_path: Path) -> None:
    for name in (*site_hook.IN_ROOT, "mkdocs.yml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for folder in ("docs", "tests/docs"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copyfile(ROOT / "docs" / "tables.md", tmp_path / "docs" / "tables.md")
    shutil.copyfile(str(site_hook.__file__), tmp_path / "tests" / "docs" / "site_hook.py")
    (tmp_path / "code.py").touch()
    links = "[a](tables.md#nowhere), [b](nothing.md), [c](../nothing.py), [d](../code.py), [e](../SECURITY.md#threats-nowhere)"
    (tmp_path / "docs" / "limits.md").write_text(f"# What it cannot do\n\n## In this version\n\n{links}\n", encoding="utf-8")

    said = build(tmp_path, tmp_path / "site")

    for nowhere in ("tables.md#nowhere", "nothing.md", "../nothing.py", "security.md#threats-nowhere"):
        assert f"'{nowhere}'" in said
    assert "code.py" not in said


def test_the_site_has_every_document_and_its_four_parts(site: Path) -> None:
    documents = {file.relative_to(ROOT / "docs").with_suffix(".html") for file in (ROOT / "docs").rglob("*.md")}
    of_site = {file.relative_to(site) for file in site.rglob("*.html")}
    readme = Path("decisions/README.html")
    assert documents - {readme} - of_site == set()
    home = (site / "index.html").read_text(encoding="utf-8")
    places = [home.index(f"\n    {part}\n") for part in ("Tutorial", "How-to", "Reference", "Explanation")]
    assert places == sorted(places)


def test_the_site_asks_no_network_and_shows_lists_and_tables_as_such(site: Path) -> None:
    texts = {str(file): file.read_text(encoding="utf-8") for file in site.rglob("*.html")}
    pages = {name: Page(text) for name, text in texts.items()}
    loaded = {url for page in pages.values() for url in page.loaded}
    styles = {url for file in site.rglob("*.css") for url in re.findall(r"url\(([^)]+)\)", file.read_text(encoding="utf-8"))}
    assert any(url.endswith(".js") for url in loaded)
    assert {url for url in loaded | styles if re.match(r"[\"']?(?:https?:)?//", url)} == set()
    # The theme's script fetches mermaid for a page with such a diagram.
    assert [name for name, text in texts.items() if 'class="mermaid"' in text] == []
    assert {name: page.leaked for name, page in pages.items() if page.leaked} == {}
