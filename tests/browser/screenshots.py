"""`python -m tests.browser.screenshots` writes `docs/images/report-light.png` and `report-dark.png` from a real run."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.browser import Opened, open_browser
from tests.support.kafka import send_outgoing
from tests.support.small_config import write_config
from tidemark.commands import main
from tidemark.extras.demo import producer
from tidemark.extras.demo.broker import LocalBroker, create_topic

IMAGES = Path(__file__).parents[2] / "docs" / "images"
RECORDS, LOADS, HELD_BACK = 120_000, 6, 40
CONFIG = {
    "pipeline": producer.EVENTS_TOPIC,
    "sequence": {"header": producer.EVENTS_HEADER},
    "value": {"format": "json", "schema": producer.EVENTS_SCHEMA},
    "policies": {"contiguous": True},
    "gate": {"budgets": {"duplicate_share": {"warn": 0.1}}},
}


def parts() -> Iterator[list[producer.Outgoing]]:
    """What is sent before each load, and after the last one. In each, some records are overtaken by those after them."""
    sent = list(producer.events(producer.plan_events(RECORDS)))
    size = len(sent) // (LOADS + 1)
    for first in range(0, size * (LOADS + 1), size):
        part = sent[first : first + size]
        yield [*part[: size // 2], *part[size // 2 + HELD_BACK :], *part[size // 2 : size // 2 + HELD_BACK]]


def run_and_report(folder: Path) -> Path:
    file = folder / "report.html"
    with LocalBroker() as broker:
        create_topic(broker.bootstrap_servers, producer.EVENTS_TOPIC, producer.EVENTS_PARTITIONS)
        kafka = {"bootstrap_servers": broker.bootstrap_servers, "topics": [producer.EVENTS_TOPIC]}
        config = str(write_config(folder, root=str(folder / "lakehouse"), kafka=kafka, **CONFIG))
        for number, part in enumerate(parts()):
            send_outgoing(broker.bootstrap_servers, producer.EVENTS_TOPIC, part)
            if number < LOADS and main(["run", "--config", config]):
                sys.exit("The run failed.")
        if main(["report", "--config", config, "-o", str(file)]):
            sys.exit("The report failed.")
    return file


def take(file: Path) -> None:
    IMAGES.mkdir(exist_ok=True)
    with open_browser() as browser:
        for scheme in ("light", "dark"):
            opened = Opened(browser.new_page(color_scheme=scheme, viewport={"width": 1100, "height": 1500}))
            opened.load(file)
            opened.page.screenshot(path=IMAGES / f"report-{scheme}.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tidemark-screenshots-") as made:
        take(run_and_report(Path(made).resolve()))
