"""README's quickstart, from the producer to the answers that it shows; and the demo."""

import contextlib
from pathlib import Path

import pytest
import yaml

from tests.docs.command_lines import Line, blocks
from tidemark.commands import main
from tidemark.extras.demo.broker import LocalBroker, create_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.e2e]

ADDRESS = "localhost:9092"


def block(language: str, holding: str) -> str:
    return next(body for name, found, body in blocks() if (name, found) == ("README.md", language) and holding in body)


@pytest.mark.usefixtures("spark")
def test_the_quickstart_goes_as_the_readme_has(broker: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create_topic(broker.bootstrap_servers, "payments", 1)
    here = {ADDRESS: broker.bootstrap_servers}
    producer = block("python", "Producer(").replace(ADDRESS, broker.bootstrap_servers)
    said: dict[str, str] = {}

    def ran(lines: str, *more: str) -> None:
        for line in lines.splitlines():
            capsys.readouterr()
            assert main([*Line("README.md", line).words(**here)[1:], *more]) == 0, line
            said[line.split()[1]] = capsys.readouterr().out

    with contextlib.chdir(tmp_path):
        exec(producer, {})  # noqa: S102 -- the README's own text
        ran(block("sh", "tidemark init"))
        written = yaml.safe_load((tmp_path / "tidemark.yml").read_text(encoding="utf-8"))
        shown = block("yaml", "pipeline:").replace(ADDRESS, broker.bootstrap_servers)
        assert written == yaml.safe_load(shown)

        exec(producer, {})  # noqa: S102 -- as above
        ran(block("sh", "tidemark why"))
    assert said["why"].startswith(block("text", "Topic payments"))
    assert said["sql"].splitlines()[1:] == ["payments,0,1,10.00", "payments,0,2,25.00", "payments,0,3,5.00"]


@pytest.mark.usefixtures("spark")
def test_the_demo_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--records", "800", "--into", str(tmp_path / "demo")]) == 0
    out = capsys.readouterr().out
    assert "The article's example: 15 records arrived, 11 were kept." in out
    for data in (
        "ab583cc8f8, 8f8bc8f890, 07583ab583, 930fce58f3",
        "83ccc8f8f8, a583ccc8f8, 7583ab93ab, b583075830",
        "115tab5b58, 83caac564b, 7583aab583",
    ):
        assert data in out
