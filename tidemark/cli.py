"""The entry points of the distribution: the command `tidemark` and the jobs.

They are here, and not in `jobs`, so that `tidemark` is loaded first: it finds our other packages (`tidemark.own_packages`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module


def main(argv: list[str] | None = None) -> int:
    """Run a command line of `tidemark`; see `tidemark.commands.main`."""
    from tidemark import commands

    return commands.main(argv)


def _job(name: str) -> Callable[..., None]:
    def run(argv: list[str] | None = None) -> None:
        import_module(f"jobs.{name}").main(argv)

    return run


audit_silver = _job("audit_silver")
ingest_bronze = _job("ingest_bronze")
load_silver = _job("load_silver")
maintain_tables = _job("maintain_tables")
publish_gold = _job("publish_gold")
run_medallion = _job("run_medallion")
