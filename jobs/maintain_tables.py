"""Job: maintenance of every table; flags `--config` and `--set`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tidemark.process.exit_codes import exit_code_of
from tidemark.runner.once import thin_job

if TYPE_CHECKING:
    from pipelines.job import Job


def main(argv: list[str] | None = None) -> None:
    """Run the job; return on success, raise a TidemarkError on failure. As a script, exit with its `exit_code`."""
    thin_job(_maintain, "Put every table of a pipeline in order.", argv)


def _maintain(job: Job) -> None:
    from pipelines import medallion

    medallion.maintain(job, is_dry_run=False)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
