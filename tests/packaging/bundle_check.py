"""Validates and plans the Databricks bundle for both targets, by the platform's own command line: `make bundle-check`.

The command line is built once from its Go module, at a pinned version, into the cache folder. The workspace is a stand-in on
loopback, which is empty: what a plan would do to resources that are there already is not seen here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.bundle import ROOT, resources
from tests.support.workspace import stand_in

MODULE = "github.com/databricks/cli"
VERSION = "1.10.0"
TARGETS = ("dev", "prod")
NO_GO = """Go is missing: the databricks command line is built from its Go module.
  Debian, Ubuntu: apt install golang, where it is as new as the module wants (the build says so)
  macOS:          brew install go
  others:         a release of Go, its bin folder on the path"""
_BUILD_SECONDS = 1800


def main() -> None:
    """Check both targets; end with 1 where Go is missing, or a target is not in order."""
    go = shutil.which("go")
    if go is None:
        sys.exit(NO_GO)
    cli = _built(go)
    with stand_in() as host, tempfile.TemporaryDirectory() as home:
        for target in TARGETS:
            _check(cli, target, _environment(host, home))


def _built(go: str) -> Path:
    """The command line; built where it is not in the cache."""
    caches = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(caches) if caches else Path.home() / ".cache") / "tidemark" / f"databricks-{VERSION}"
    cli = folder / "databricks"
    if cli.is_file():
        return cli
    _say(f"Building databricks {VERSION}; this takes minutes, once.")
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as module:
        fresh = Path(module) / "databricks"
        version = f"-X {MODULE}/internal/build.buildVersion={VERSION}"
        for command in (
            ["mod", "init", "example.com/bundle-check"],
            ["get", f"{MODULE}@v{VERSION}"],
            ["build", "-ldflags", version, "-o", str(fresh), MODULE],
        ):
            _ran([go, *command], cwd=module, environment=dict(os.environ), seconds=_BUILD_SECONDS)
        fresh.replace(cli)  # whole or not at all
    _say(f"Built in {time.monotonic() - started:.0f} s: {cli}")
    return cli


def _environment(host: str, home: str) -> dict[str, str]:
    """An environment without any login of this machine's user; uv, which builds the wheel, is that of this Python."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "BUNDLE_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {
        **own,
        "PATH": path,
        "DATABRICKS_HOST": host,
        "DATABRICKS_TOKEN": "stand-in",
        "DATABRICKS_CONFIG_FILE": str(Path(home) / "none"),
        "NO_PROXY": "127.0.0.1",
    }


def _check(cli: Path, target: str, environment: dict[str, str]) -> None:
    """Validate and plan one target; end where it is not in order, or plans anything but what the files declare."""
    started = time.monotonic()
    bundle = [str(cli), "bundle", "--target", target]
    _ran([*bundle, "validate", "--strict"], cwd=ROOT, environment=environment)
    said = _ran([*bundle, "plan"], cwd=ROOT, environment=environment)
    declared = sorted(f"create {kind}.{key}" for kind, key, _ in resources())
    planned = sorted(line for line in said.splitlines() if line.startswith("create ") and line.count(".") == 1)
    if planned != declared:
        sys.exit(f"Target {target} plans {planned}; the files declare {declared}.")
    _say(f"{target}: valid; plans {len(planned)} resources ({time.monotonic() - started:.0f} s)")


def _ran(command: list[str], *, cwd: Path | str, environment: dict[str, str], seconds: int = 300) -> str:
    """What a command says on stdout; where it fails, all that it said, and the end."""
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=seconds)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
