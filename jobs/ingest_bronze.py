"""Job: Kafka to Bronze; flags `--config` and `--set`."""

from __future__ import annotations

import sys

from tidemark.process.exit_codes import exit_code_of
from tidemark.runner.once import run_job


def main(argv: list[str] | None = None) -> None:
    """Run the job; return on success, raise a TidemarkError on failure. As a script, exit with its `exit_code`."""
    run_job("bronze", argv)


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
