"""Run a pipeline once and save the result next to the tables."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lakehouse.errors import TidemarkError
from tidemark.process import exit_codes
from tidemark.process.context import job_of, load_settings
from tidemark.process.options import DEFAULT_CONFIG, ConfigFile, Overrides
from tidemark.runner.summary import STAGES

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings
    from pipelines.job import Job


def run_once(
    job: Job, *, stage: str | None = None, on_failure: Callable[[dict[str, Any]], None] = lambda _: None
) -> dict[str, Any]:
    """Run the pipeline once, all of it or one stage, and save and return the result; see `pipelines.medallion.run`.

    The result of a run that began and failed is saved, too, and `on_failure` gets it: what its stages did, and the error.
    """
    # Free what an earlier run of this process left: py4j has frames in cycles, which Python looks for once in a hundred runs,
    # and Spark keeps the rows and plans of each. Before the imports, while there is little to look through.
    gc.collect()
    from pipelines import medallion
    from tidemark.extras.watch.after_run import watching

    with watching(job) as followed:
        try:
            result: dict[str, Any] = medallion.run(job.telling(followed), stage)
        except TidemarkError as error:
            message = exit_codes.scrub_text(str(error))
            failure = {"error": type(error).__name__, "exit_code": error.exit_code, "message": message}
            job.report.event("run.failed", **failure)
            error.is_reported = True
            seconds = round(time.monotonic() - followed.started, 3)
            failed = {**followed.bound, **dict.fromkeys(STAGES), **followed.done, "seconds": seconds, **failure}
            if "run_id" in failed:
                with contextlib.suppress(OSError):  # a full disk, which may be the error itself
                    _keep(job.settings, failed)
                on_failure(failed)
            raise
        _keep(job.settings, result)
    return result


def run_job(stage: str | None, argv: list[str] | None) -> None:
    """Run one stage of the pipeline, or all, as a job; see `thin_job`."""
    what = f"Run {f'the {stage} stage' if stage else 'all stages'} of a pipeline once."
    thin_job(partial(run_once, stage=stage), what, argv)


def thin_job(do: Callable[[Job], object], what: str, argv: list[str] | None) -> None:
    """Call `do` with a job on the config that `--config` and `--set` name; the help says `what`.

    Returns or raises, since a wheel task treats any SystemExit as a failure. A console script exits with the error's code.
    """

    def job(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None) -> None:
        with job_of(load_settings(config, overrides)) as opened:
            do(opened)

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=what)(job)
    run = partial(exit_codes.invoke, app, argv, program=Path(sys.argv[0]).name)
    main = getattr(sys.modules["__main__"], "__file__", None)
    if main is None or not Path(main).stem.startswith("tidemark-"):
        run()
    elif code := exit_codes.exit_code_of(run):
        sys.exit(code)


def _keep(settings: Settings, result: dict[str, Any]) -> None:
    from lakehouse.escape import json_text
    from lakehouse.table import Lakehouse

    if (folder := Lakehouse.of(settings).sidecar_files("_reports")) is not None:
        folder.write(f"{result['run_id']}.json", json_text(result, indent=2, is_ascii=True) + "\n")
