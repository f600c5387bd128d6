"""The entry points of the distribution: the command `tidemark` and the jobs.

They are here, and not in `jobs`, so that `tidemark` is loaded first: it finds our other packages (`tidemark.own_packages`).
"""

from __future__ import annotations


def main(argv: list[str] | None = None) -> int:
    """Run a command line of `tidemark`; see `jobs.cli.main`."""
    from jobs import cli

    return cli.main(argv)


def audit_silver(argv: list[str] | None = None) -> None:
    """Run the job; see `jobs.audit_silver.main`."""
    from jobs import audit_silver

    audit_silver.main(argv)


def ingest_bronze(argv: list[str] | None = None) -> None:
    """Run the job; see `jobs.ingest_bronze.main`."""
    from jobs import ingest_bronze

    ingest_bronze.main(argv)


def load_silver(argv: list[str] | None = None) -> None:
    """Run the job; see `jobs.load_silver.main`."""
    from jobs import load_silver

    load_silver.main(argv)


def maintain_tables(argv: list[str] | None = None) -> None:
    """Run the job; see `jobs.maintain_tables.main`."""
    from jobs import maintain_tables

    maintain_tables.main(argv)


def publish_gold(argv: list[str] | None = None) -> None:
    """Run the job; see `jobs.publish_gold.main`."""
    from jobs import publish_gold

    publish_gold.main(argv)


def run_medallion(argv: list[str] | None = None) -> None:
    """Run the job; see `jobs.run_medallion.main`."""
    from jobs import run_medallion

    run_medallion.main(argv)
