"""Every command line of the documents is one that the command line, or the Makefile, takes; what cannot be run says why."""

import re

import pytest
import typer

from tests.docs import command_lines
from tests.docs.command_lines import ROOT, SHELL, Line, parse
from tidemark.commands.commands import app

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
