"""The wheels of this checkout, each built once for a test process, offline; and processes in folders with other packages."""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"


@cache
def built(project: Path = ROOT) -> Path:
    folder = tempfile.mkdtemp(prefix="tidemark-wheel-")
    subprocess.run([sys.executable, "-c", _BUILD, folder], cwd=project, check=True, capture_output=True)
    return next(Path(folder).glob("*.whl"))


@cache
def installed() -> Path:
    folder = built().parent / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, str(built())], check=True, capture_output=True)
    return folder


def ended(*command: str, folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with the packages of the folder first and those of the path behind it."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{path}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
