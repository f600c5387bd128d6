"""The process of a peer that is written in Python: `python -m bench.peers.worker spark` or `duckdb`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from bench.peers.job import Answer, Job

MODULES = {"spark": "bench.peers.spark", "duckdb": "bench.peers.duck"}


def main(argv: Sequence[str] | None = None) -> int:
    """Answer jobs until the standard input ends."""
    (name,) = sys.argv[1:] if argv is None else argv
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a JVM below this process prints what it likes; answers stay alone
    module = import_module(MODULES[name])
    for line in sys.stdin:
        try:
            answer: Answer = module.do(Job.parse(line))
        except Exception as error:  # noqa: BLE001 -- whatever a peer fails with is its result
            traceback.print_exc()
            answer = Answer(error=f"{type(error).__name__}: {error}".splitlines()[0])
        answers.write(answer.line() + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
