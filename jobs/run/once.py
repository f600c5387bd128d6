"""One run of a pipeline, its result kept beside the tables; and the job files, which do one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jobs.process import exit_codes
from jobs.process.context import open_job
from jobs.process.options import DEFAULT_CONFIG, ConfigFile, Overrides
from lakehouse.errors import TidemarkError

if TYPE_CHECKING:
    from lakehouse.settings.pipeline import Settings
    from pipelines.job import Job


def run_once(job: Job, *, stage: str | None = None) -> dict[str, Any]:
    """Run the pipeline once, all of it or one stage, and keep its result beside the tables, a failure too.

    Returns:
        What `pipelines.medallion.run` returned.

    Raises:
        TidemarkError: The run failed; see its class.
    """
    from jobs.watch.after_run import watching
    from pipelines import medallion

    with watching(job) as followed:
        try:
            result: dict[str, Any] = medallion.run(job.telling(followed), stage)
        except TidemarkError as error:
            told = {"error": type(error).__name__, "exit_code": error.exit_code, "message": exit_codes.scrub_text(str(error))}
            job.report.event("run.failed", **told)
            with contextlib.suppress(OSError):  # a full disk, as the error may be
                _keep(job.settings, {**followed.bound, **told})
            raise
        _keep(job.settings, result)
    return result


def run_job(stage: str | None, argv: list[str] | None) -> None:
    """What a thin job does: `--config` and `--set`, then one stage of the pipeline, or all; see `thin_job`.

    Raises:
        TidemarkError: The run failed; see its class.
    """
    what = f"Run {f'the {stage} stage' if stage else 'all stages'} of a pipeline once."
    thin_job(partial(run_once, stage=stage), what, argv)


def thin_job(do: Callable[[Job], object], what: str, argv: list[str] | None) -> None:
    """Do something with the session of a config, by `--config` and `--set`.

    Returns on success, for a wheel task takes any SystemExit for a failure.

    Raises:
        TidemarkError: It failed; see its class.
        SystemExit: It failed, and this process is a console script: the error's exit code, after its message.
    """

    def job(config: ConfigFile = DEFAULT_CONFIG, overrides: Overrides = None) -> None:
        with open_job(config, overrides) as opened:
            do(opened)

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(help=what)(job)
    run = partial(exit_codes.invoke, app, argv, program=Path(sys.argv[0]).name)
    if not exit_codes.is_console_script():
        run()
    elif code := exit_codes.exit_code_of(run):
        sys.exit(code)


def _keep(settings: Settings, result: dict[str, Any]) -> None:
    from lakehouse.run.reporting import save_result
    from lakehouse.table import Lakehouse

    place = Lakehouse.of(settings)
    folder = place.local_folder("_reports")
    # A volume is a folder on the platform only: a client elsewhere has its path, and nothing there.
    is_here = folder is not None and (place.root is not None or folder.parent.is_dir())
    if folder is not None and is_here and "run_id" in result:
        save_result(folder, result)
