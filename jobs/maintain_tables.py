"""Job: the upkeep of every table; flags `--config` and `--set`."""

from __future__ import annotations

import sys
from functools import partial

from jobs.process.context import maintain_once, thin_job
from jobs.process.exit_codes import exit_code_of


def main(argv: list[str] | None = None) -> None:
    """Run the job; return on success.

    Args:
        argv: The flags; those of the process by default.

    Raises:
        TidemarkError: It failed; its `exit_code` is what the process ends with when the file is run.
    """
    thin_job(partial(maintain_once, is_dry_run=False), "Put every table of a pipeline in order.", argv)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
