"""Small tables with records of every kind, and what all readers say of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobs.readers import topics
from jobs.readers.quarantine import held
from jobs.readers.status import status
from jobs.readers.why import why_with_record
from jobs.report.facts import facts
from lakehouse.contracts.bronze import TOPICS
from lakehouse.spark import frames
from lakehouse.table import BRONZE_TOPICS
from silver.state.request import Wanted
from tests.support.bronze import Record
from tests.support.small_config import settings_of
from tests.support.stages import loaded, published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.run.context import Run
    from lakehouse.settings.pipeline import Settings
    from lakehouse.table import Lakehouse

ODD = "it's a \\ '${env:HOME}'\n"
SENT = [
    *(Record.of(offset, sequence, producer=ODD) for offset, sequence in enumerate([1, 2, 5, 6, 2, 10, 3])),
    *(replace(Record.of(offset, sequence, producer="p"), partition=1) for offset, sequence in enumerate([1, "x", 2])),
    replace(Record.of(7, 2, producer=ODD), value=b"another"),
]


def made(spark: SparkSession, run: Run) -> tuple[Lakehouse, Settings]:
    """Tables of two loads: duplicates, late and invalid records, gaps, and a producer with a name that has to be quoted."""
    settings = settings_of(run, producer={"header": "producer"}, policies={"contiguous": True})
    loaded(spark, run, settings, SENT[:5])
    loaded(spark, run, settings, SENT[5:])
    published(spark, run, settings)
    table = run.table(BRONZE_TOPICS)
    frames.of_contract(spark, [], TOPICS).write.format("delta").save(table.location)
    return run.lakehouse, settings


def told(lakehouse: Lakehouse, settings: Settings) -> dict[str, Any]:
    """What all readers say, but for the time at which they say it, and the name of the place."""
    found = facts(settings, lakehouse, asks_kafka=False)
    whole, few = status("tests", lakehouse), status("tests", lakehouse, most_streams=1)
    for each in (found, whole, few):
        del each["lakehouse"]
    del found["made_at"]
    return {
        "status": whole,
        "few": few,
        "held": held(lakehouse, Wanted()),
        "some": held(lakehouse, Wanted(producer=ODD, days=0), most=1),
        "none": held(lakehouse, Wanted(topic=ODD)),
        "why": [why_with_record(lakehouse, "t", sent.partition, sent.offset) for sent in SENT],
        "topics": topics.known(lakehouse),
        "facts": found,
    }
