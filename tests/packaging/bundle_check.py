"""`make bundle-check` validates and plans the Databricks bundle by the platform's CLI, with an empty stand-in workspace."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.bundle import ROOT, resources
from tests.support.served import Handler, kept_program, listening
from tidemark.extras.demo.broker_process import HOST

MODULE = "github.com/databricks/cli"
VERSION = "1.10.0"
TARGETS = ("dev", "prod")
NO_GO = """Go is missing: the databricks command line is built from its Go module.
  Debian, Ubuntu: apt install golang, where it is as new as the module wants (the build says so)
  macOS:          brew install go
  others:         a release of Go, its bin folder on the path"""
_SECONDS = 1800
# All that validating and planning ask of a workspace.
_WAREHOUSE = {"id": "warehouse-1", "name": "Serverless Starter Warehouse", "state": "STOPPED"}
_ANSWERS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/api/2.0/preview/scim/v2/Me"): {"id": "1", "userName": "ann@example.com"},
    ("GET", "/api/2.0/sql/warehouses"): {"warehouses": [_WAREHOUSE]},
    ("GET", "/api/2.0/workspace/get-status"): {"object_type": "DIRECTORY", "object_id": 1},
    ("POST", "/api/2.0/workspace/mkdirs"): {},
    ("GET", "/api/2.0/permissions/directories/1"): {"object_id": "/directories/1", "object_type": "directory"},
}
_NOTHING = (404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "The stand-in is empty."})


class _Workspace(Handler):
    protocol_version = "HTTP/1.1"

    def _say(self) -> None:
        self.body()
        asked = urlsplit(self.path)
        # Folders are there, which mkdirs made; there is no file, and so nothing was deployed before.
        known = None if "/state/" in unquote(asked.query) else _ANSWERS.get((self.command, asked.path))
        status, answer = _NOTHING if known is None else (200, known)
        self.answer(status, json.dumps(answer).encode(), Content_Type="application/json")

    do_GET = do_HEAD = do_POST = do_PUT = _say  # noqa: N815 -- the names that the standard library calls


def main() -> None:
    go = shutil.which("go")
    if go is None:
        sys.exit(NO_GO)
    cli = _built(go)
    # Without any login of this machine's user; uv, which builds the wheel, is that of this Python.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "BUNDLE_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with listening(_Workspace) as port, tempfile.TemporaryDirectory() as home:
        login = {"DATABRICKS_TOKEN": "stand-in", "DATABRICKS_CONFIG_FILE": str(Path(home) / "none")}
        login["DATABRICKS_HOST"] = f"http://{HOST}:{port}"
        for target in TARGETS:
            _check(cli, target, {**own, **login, "PATH": path, "NO_PROXY": "127.0.0.1"})


def _built(go: str) -> Path:
    def build(work: Path) -> Path:
        version = f"-X {MODULE}/internal/build.buildVersion={VERSION}"
        for command in (
            ["mod", "init", "example.com/bundle-check"],
            ["get", f"{MODULE}@v{VERSION}"],
            ["build", "-ldflags", version, "-o", "built/databricks", MODULE],
        ):
            _ran([go, *command], cwd=work, environment=dict(os.environ))
        return work / "built"

    return kept_program(f"databricks-{VERSION}", build) / "databricks"


def _check(cli: Path, target: str, environment: dict[str, str]) -> None:
    bundle = [str(cli), "bundle", "--target", target]
    _ran([*bundle, "validate", "--strict"], cwd=ROOT, environment=environment)
    said = _ran([*bundle, "plan"], cwd=ROOT, environment=environment)
    declared = sorted(f"create {kind}.{key}" for kind, key, _ in resources())
    planned = sorted(line for line in said.splitlines() if line.startswith("create ") and line.count(".") == 1)
    if planned != declared:
        sys.exit(f"Target {target} plans {planned}; the files declare {declared}.")
    sys.stdout.write(f"{target}: valid; plans {len(planned)} resources\n")


def _ran(command: list[str], *, cwd: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
