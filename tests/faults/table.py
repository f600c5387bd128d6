"""What the crash table is made of: runs that die, the tables that they leave, and the runs over these."""

import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from bronze.ingest import ingest
from lakehouse.run.context import Run
from lakehouse.run.crash_points import crash_point
from lakehouse.settings.pipeline import Settings
from pipelines import bronze_to_silver, silver_to_gold
from pipelines.operate import requests
from pipelines.recover import restore
from silver.state.request import Kind, Request
from tests.support.bronze import Record, put
from tests.support.small_config import small_config, write_config
from tidemark.extras.demo.broker import LocalBroker
from tidemark.readers.files import connect

ANN = b"ann@example.org"  # the key that is erased
OF_ANN = ("bronze_records", "silver_records", "gold_latest_by_stream", "gold_latest", "gold_records")
READ = {
    "bronze": 'SELECT "offset" FROM bronze_records',
    "topics": "SELECT cause FROM bronze_topics",
    "loads": "SELECT DISTINCT load_seq, kind FROM silver_loads",
    "claimed": "SELECT DISTINCT load_seq FROM silver_loads",
    "silver": 'SELECT "offset" FROM silver_records',
    "silver by load": 'SELECT "offset", load_seq FROM silver_records',
    "rejects": "SELECT first_offset, class, state FROM silver_rejects",
    "finished": "SELECT max(load_seq) FROM silver_watermarks HAVING count(*) > 0",
    "watermark": "SELECT high_watermark, last_offset FROM silver_watermarks WHERE partition = 0",
    "gate runs": "SELECT DISTINCT first_load_seq, last_load_seq FROM gate_results",
    "gold": 'SELECT "offset" FROM gold_records',
    "latest by stream": 'SELECT "partition", "offset" FROM gold_latest_by_stream',
    "latest": 'SELECT "offset" FROM gold_latest',
    "published": "SELECT DISTINCT load_seq FROM gold_stream_health",
    "counted": "SELECT records FROM by_key",
    "erased": "SELECT sum(erased) FROM silver_loads WHERE kind = 'erase'",
    "hashes": "SELECT count(*) FROM silver_rejects WHERE content_sha256 NOT LIKE 'erased:%'",
    "kept out": 'SELECT "offset", state FROM gold_rejects SEMI JOIN gold_stream_health USING (load_seq, gate_run_id)',
    **{f"ann in {name}": f"SELECT count(*) FROM {name} WHERE key = '{ANN.decode()}'::BLOB" for name in OF_ANN},
}  # what a row reads of the tables


class Died(BaseException):
    pass


@dataclass(frozen=True)
class Lake:
    spark: SparkSession
    folder: Path
    run_at: Callable[[Path], Run]
    config: dict[str, Any]
    broker: LocalBroker | None = None

    @property
    def run(self) -> Run:
        return self.run_at(self.folder)

    @property
    def servers(self) -> str:
        return "localhost:9092" if self.broker is None else self.broker.bootstrap_servers

    @property
    def _keys(self) -> dict[str, Any]:
        kafka = {"bootstrap_servers": self.servers, "topics": ["t"]}
        return {**self.config, "kafka": kafka | self.config.get("kafka", {})}

    @property
    def settings(self) -> Settings:
        return Settings.model_validate(small_config(str(self.folder), **self._keys), context={"folder": Path()})

    def config_file(self) -> Path:
        return write_config(self.folder.parent, root=str(self.folder), **self._keys)

    def ingest(self) -> int:
        return ingest(self.spark, self.run, self.settings.kafka).records

    def load(self) -> tuple[object, object]:
        done = bronze_to_silver.run(self.spark, self.run, self.settings)
        return done["loads"], done["repeated"]

    def publish(self) -> tuple[object, object]:
        audited = silver_to_gold.run_gate(self.spark, self.run, self.settings)
        self.gold()
        return audited.get("first_load_seq"), audited.get("last_load_seq")

    def gold(self) -> object:
        return silver_to_gold.run_gold(self.spark, self.run, self.settings)

    def run_all(self) -> tuple[object, object]:
        done = self.load()
        self.publish()
        return done

    def left_at(self, point: str, act: "Act") -> "Lake":
        left = replace(self, folder=self.folder.parent / point / self.folder.name)

        def die(name: str) -> None:
            if name == point:
                shutil.copytree(self.folder, left.folder)
                raise Died

        with pytest.MonkeyPatch.context() as patched:
            for module in list(sys.modules.values()):
                if vars(module).get("crash_point") is crash_point:
                    patched.setattr(module, "crash_point", die)
            with pytest.raises(Died):
                act(self)
        return left

    def read(self, names: Iterable[str]) -> dict[str, list[Any]]:
        """The sorted rows of each query of `READ`, of a single column its values; a table that is missing has none."""
        with connect(self.run.lakehouse) as tables:
            queries = {name: READ[name] for name in names}
            there = {name for name, query in queries.items() if query.partition(" FROM ")[2].split()[0] in tables.names}
            tables.open(tables.names)  # a query may read a model's table
            found = {name: tables.rows(f"{query} ORDER BY ALL") if name in there else [] for name, query in queries.items()}
        return {name: [_value(row) for row in rows] for name, rows in found.items()}


def _value(row: dict[str, Any]) -> Any:
    return next(iter(row.values())) if len(row) == 1 else tuple(row.values())


Act = Callable[[Lake], object]


def in_turn(*acts: Act) -> Act:
    return lambda lake: [act(lake) for act in acts]


def came(*records: Record) -> Act:
    return lambda lake: put(lake.spark, lake.run, records)


def loaded(*records: Record) -> Act:
    return lambda lake: (came(*records)(lake), lake.load())


def published(*records: Record) -> Act:
    return lambda lake: (came(*records)(lake), lake.run_all())


def decided(kind: Kind, **wanted: Any) -> Act:
    request = Request(kind, "checked", "ann", **wanted)
    return lambda lake: requests.carry_out(lake.spark, lake.run, lake.settings, request, is_dry_run=False)


def restored(to: int) -> Act:
    named = {"reason": "a wrong release", "by": "ann", "is_dry_run": False}
    return lambda lake: restore.restore(lake.spark, lake.run, lake.settings, to, **named)  # type: ignore[arg-type] # as named


class Row(NamedTuple):
    """A crash point, what a run leaves there (`Group.watched`), and the stage whose process gets SIGKILL."""

    point: str
    left: tuple[list[Any], ...]
    meanwhile: Act | None = None
    dies: Act | None = None
    killed: str | None = None


@dataclass(frozen=True)
class Group:
    """Crash points of one protocol, in the order in which runs die there."""

    protocol: str
    before: tuple[Act, ...]  # what was done before, once; each group copies the tables
    dies: Act  # what dies first
    then: Act  # each run after it
    watched: tuple[str, ...]  # what is read where a run died, by names of `READ`
    rows: tuple[Row, ...]
    done: object  # what the last run reports
    after: dict[str, list[Any]]  # what the tables hold after it, see `READ`
    config: dict[str, Any] = field(default_factory=dict)  # beyond the smallest
    is_verified: bool = True  # ends with `verify --deep`, which needs Silver, and Gold that has followed it

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        return [pytest.mark.kafka] if self.protocol == "bronze" else []
