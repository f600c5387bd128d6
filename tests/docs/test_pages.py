"""The documents: short where they begin, written from the code where the code knows, and a site that holds together."""

import os
import re
import shutil
import subprocess
import sys
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


def loaded(page: str) -> list[str]:
    tags = re.findall(r"<(?:script|img|source|iframe|link|video|audio|object|embed)\b[^>]*>", page)
    return [url for tag in tags for url in re.findall(r"\b(?:src|href|srcset|data)=[\"']?([^\"'>]+)", tag)]


def leaked(page: str) -> list[str]:
    paragraphs = re.findall(r"(?s)<p[ >].*?</p>", page)
    texts = (re.sub(r"(?s)<(code|pre)\b.*?</\1>|<[^>]*>", ".", paragraph) for paragraph in paragraphs)
    return [line for text in texts for line in text.split("\n")[1:] if LISTS.match(line)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    said = build(ROOT, folder)
    assert (folder / "index.html").is_file(), said
    return folder


def build(root: Path, folder: Path) -> str:
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
    urls = {url for text in texts.values() for url in loaded(text)}
    styles = {url for file in site.rglob("*.css") for url in re.findall(r"url\(([^)]+)\)", file.read_text(encoding="utf-8"))}
    assert any(url.endswith(".js") for url in urls)
    assert {url for url in urls | styles if re.match(r"[\"']?(?:https?:)?//", url)} == set()
    # The theme's script fetches mermaid for a page with such a diagram.
    assert [name for name, text in texts.items() if 'class="mermaid"' in text] == []
    assert {name: lines for name, text in texts.items() if (lines := leaked(text))} == {}
