"""`python -m tests.support.kept` writes what users and stored state see into `tests/kept.yml`; `CHANGELOG.md` has changes."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
import yaml

import tidemark
from expectations.evidence.facts import INVARIANTS
from lakehouse import errors
from lakehouse.config.keys import Key
from lakehouse.contracts import bronze, gate, gold, silver, views
from lakehouse.contracts.bronze import LostRange
from lakehouse.contracts.contract import Contract
from lakehouse.extract.sources import Source
from lakehouse.settings.gate import MEASURES
from lakehouse.settings.pipeline import Settings
from lakehouse.table import SHADOWS, TABLE_NAMES
from silver.rules import Payload, Policy, Rules
from silver.state.request import Accepted, Cutover, Erase, RecordFilter, Request, Reset
from tests.docs.reference import leaves
from tidemark import answers
from tidemark.commands.commands import app
from tidemark.process.exit_codes import INTERRUPTED, OUTPUT_CLOSED, TERMINATED

FILE = Path(__file__).parents[1] / "kept.yml"
PACKAGES = ("bronze", "expectations", "gold", "jobs", "lakehouse", "pipelines", "silver", "tidemark")
_TRIAL = Rules(
    sequence=Source("header", "seq"),
    producer=Source("json", "$.who"),
    epoch=Source("bytes", "0:8", "int64"),
    payload=Payload("json", "id STRING", 1000, "quarantine"),
    max_jump=5,
    topics=(("orders", Policy(7, "accept")),),
    decided_topics=("orders",),
)
_ASKED = Request(
    "release",
    "checked",
    "ann",
    wanted=RecordFilter(kind="late", topic="t"),
    up_to_load_seq=3,
    reset=Reset("t", 0, None, 5, is_new_epoch=True),
    cutover=Cutover(1, 2, "s"),
    accepted=Accepted("t", "t", "recreated", 2, "t@2", "a", "b", (LostRange(0, 1, 2),)),
    erase=Erase("t", "ab"),
    published_to=2,
)


def kept() -> dict[str, Any]:
    files = [file for name in PACKAGES for file in sorted((FILE.parents[1] / name).rglob("*.py"))]
    sources = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    commands = leaves(typer.main.get_command(app))
    functions = sorted(name for name in tidemark.__all__ if inspect.isfunction(getattr(tidemark, name)))
    results = [kind for name, kind in vars(answers).items() if isinstance(kind, type) and is_dataclass(kind) and name[0] != "_"]
    return {
        "tables": {contract.name: _table(contract) for contract in contracts()},
        "views": list(views.READ_BY),
        "classes": list(silver.CLASSES),
        "expectations": list(INVARIANTS),
        "budgets": list(MEASURES),
        "config": _keys(Key(Settings)),
        "commands": {name: [" ".join([*each.opts, *each.secondary_opts]) for each in found.params] for name, found in commands},
        "python": {name: list(inspect.signature(getattr(tidemark, name)).parameters) for name in functions},
        "python results": {kind.__name__: [field.name for field in fields(kind)] for kind in results},
        "exit codes": _exit_codes(),
        "crash points": sorted(_first_arguments(sources, "crash_point")),
        "events": sorted(_first_arguments(sources, "event")),
        "persisted": {each.__name__: [field.name for field in fields(each)] for each in _persisted(Rules, Request)},
        "rules": {"json": _TRIAL.to_json(), "fingerprint": _TRIAL.fingerprint},
        "request": _ASKED.to_json(),
        "folders": ["_checkpoints", "_reports", SHADOWS],
    }


def contracts() -> list[Contract]:
    fixed = [value for module in (bronze, silver, gate, gold) for value in vars(module).values() if isinstance(value, Contract)]
    payload = "struct<id:string>"
    made = [silver.silver_records(payload), *(gold.of_records(payload, name) for name in gold.RECORD_TABLES)]
    return sorted([*fixed, *made], key=lambda contract: TABLE_NAMES.index(contract.name))


def _table(contract: Contract) -> dict[str, Any]:
    return {
        "columns": {column.name: column.type for column in contract.columns},
        "properties": dict(contract.properties),
        "clustered by": list(contract.clustered_by),
    }


def _keys(key: Key) -> Any:
    below = {name: child for name in key.children() if (child := key.child(name))}
    return {name: _keys(child) for name, child in below.items()} or _plain(key.type)


def _plain(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return " | ".join(map(str, get_args(kind)))
    name = getattr(kind, "__name__", str(kind))
    parts = [_plain(part) for part in get_args(kind) if part is not ...]
    return f"{name} of {', '.join(parts)}" if parts else name


def _exit_codes() -> dict[str, int]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TidemarkError)]
    stops = {"interrupted": INTERRUPTED, "terminated": TERMINATED, "output closed": OUTPUT_CLOSED}
    return {kind.__name__: kind.exit_code for kind in kinds} | stops


def _first_arguments(sources: list[ast.Module], function: str) -> set[str]:
    """The texts that calls of a function, or of a method of that name, begin with; what is put in later stands as `{}`."""
    calls = [node for source in sources for node in ast.walk(source) if isinstance(node, ast.Call) and node.args]
    named = [node.args[0] for node in calls if getattr(node.func, "attr", getattr(node.func, "id", "")) == function]
    return {text for argument in named for text in _texts(argument)}


def _texts(argument: ast.expr) -> list[str]:
    match argument:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(part.value if isinstance(part, ast.Constant) else "{}" for part in parts)]  # type: ignore[misc] # its parts are texts
        case ast.IfExp(body=one, orelse=other):
            return [*_texts(one), *_texts(other)]
        case _:
            return []


def _persisted(*kinds: type) -> Iterator[type]:
    """Data classes, and those that their fields hold: what the ledger keeps as JSON."""
    for kind in kinds:
        yield kind
        for hint in get_type_hints(kind).values():
            parts = [hint, *get_args(hint), *(deeper for part in get_args(hint) for deeper in get_args(part))]
            yield from _persisted(*(part for part in parts if isinstance(part, type) and is_dataclass(part)))


if __name__ == "__main__":
    FILE.write_text(yaml.safe_dump(kept(), sort_keys=False, allow_unicode=True, width=128), encoding="utf-8")
