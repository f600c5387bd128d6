"""The documents: short where they begin, current, a site that holds together, and command lines that are taken."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from pydoc import locate

import pytest
import typer

from tests.docs import command_lines, reference, site_hook
from tests.docs.command_lines import ROOT, SHELL, Line, parse
from tests.packaging.test_repository import PACKAGES
from tidemark.commands.commands import app

MOST_BYTES_OF_README = 8_000
LISTS = re.compile(r"\s*(?:[-*] |\d+\. |\||```)\S*")


def test_the_readme_is_short_and_what_is_written_from_the_code_is_current() -> None:
    assert (ROOT / "README.md").stat().st_size <= MOST_BYTES_OF_README
    for file, write in reference.PAGES.items():
        text = file.read_text(encoding="utf-8")
        assert text == write(text), "python -m tests.docs.reference writes it again"
    with pytest.raises(KeyError):
        reference.keys_page("| `kafka.topic` | text | required | The topic. | `t` |")


def test_the_code_that_the_architecture_and_the_packages_name_exists() -> None:
    packages = [file for name in PACKAGES for file in (ROOT / name).rglob("__init__.py")]
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "docs" / "architecture.md", *packages)]
    names = set(re.findall(r"`([a-z_]\w*(?:\.\w+)+)`", "\n".join(texts)))
    folders = [ROOT, *(file.parent for file in packages)]
    files = {name for name in names if any((folder / name).is_file() for folder in folders)}
    code = {name for name in names if any(locate(".".join((*folder.relative_to(ROOT).parts, name))) for folder in folders)}
    assert names - files - code == set()


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


WRONG: type[Exception] = typer.BadParameter.__mro__[1]
"""What the parser raises of a wrong command line, whether typer bundles click or imports it."""

NOT_OURS = {
    "SPARK_REMOTE=sc://": "a Spark Connect server: tests/cluster/test_connect.py",
    "beeline ": "a Thrift server: tests/cluster/test_standalone.py",
    "cat ": "tests/test_first_hour.py runs it",
    "databricks ": "a workspace",
    "env/bin/venv-pack ": "an environment of 350 MB",
    "export PATH=": "sets the shell of a reader",
    "export PYSPARK_SUBMIT_ARGS=": "a listener from a repository of jars",
    "protoc ": "tests/support/protobuf.py compiles every schema of the tests by it",
    "pip install ": "an environment of its own: tests/cluster/test_standalone.py installs the wheel",
    "python orders.py ": "the tutorial's producer: tests/test_first_hour.py runs it",
    "python -m venv ": "an environment of 350 MB",
    "sed ": "writes a file for pip",
    "spark-submit ": "a cluster: tests/cluster/test_standalone.py",
    "uv build ": "tests/packaging/test_wheel.py builds the wheel",
}  # how lines begin that are neither `tidemark` nor `make`, or need more than this machine, and why they are not run here


TARGETS = re.findall(r"(?m)^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"))


def require_taken(line: Line) -> None:
    program, *words = line.words()
    if program == "make":
        assert words[0] in TARGETS, line
    else:
        assert program == "tidemark", f"{line}: neither run nor listed in NOT_OURS"
        parse(words)


@pytest.mark.parametrize("line", command_lines.in_blocks(), ids=str)
def test_a_line_of_a_block_is_taken_whole(line: Line) -> None:
    if not line.text.startswith(tuple(NOT_OURS)) or line.program == "tidemark":
        require_taken(line)


@pytest.mark.parametrize("line", command_lines.in_text(), ids=str)
def test_a_line_in_the_text_names_commands_and_options_that_there_are(line: Line) -> None:
    try:
        require_taken(line)
    except LookupError:
        # A group may be named alone, as in `tidemark gate`.
        groups = [each.typer_instance.info.name for each in app.registered_groups if each.typer_instance]
        assert line.words()[1:] in [[name] for name in groups], line
    except WRONG as error:
        # So may a command without its arguments, or an option without its value; what is said of it has to be right.
        if not re.search("Missing|requires an argument", str(error)):
            raise


def test_every_block_says_what_it_is_in_and_what_is_not_run_here_is_in_the_documents() -> None:
    known = {*SHELL, "text", "yaml", "python", "sql"}
    assert [(name, language) for name, language, _ in command_lines.blocks() if language not in known] == []
    lines = [line.text for line in command_lines.in_blocks()]
    assert [start for start in NOT_OURS if not any(line.startswith(start) for line in lines)] == []


@pytest.mark.parametrize(
    "words", ["rum", "quarantine", "status --colour", "why t 0", "why t zero 1", "run --stage platinum", "doctor x"]
)
def test_a_line_that_would_end_with_2_is_found(words: str) -> None:
    with pytest.raises(Exception, match=r"no command|No such option|Missing|valid|not one of|[Uu]nexpected"):
        parse(words.split())


def test_comments_names_and_what_goes_on_in_the_next_line_are_read_as_a_shell_does() -> None:
    line = Line("x.md", "A=b tidemark sql \"SELECT 'NAME'\" -o FILE")
    assert line.words() == ["tidemark", "sql", "SELECT 'shop'", "-o", "key"]
    assert [each.text for each in command_lines.in_blocks() if "#" in each.text and "spark-submit" not in each.text] == []
    assert any(each.text.startswith("spark-submit --packages io.delta") for each in command_lines.in_blocks())
