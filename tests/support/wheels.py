"""The wheels of this checkout, each built once for a test process, offline."""

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
    """A folder that the wheel of Tidemark was installed into alone, its scripts too."""
    folder = built().parent / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
    subprocess.run([*command, str(built())], check=True, capture_output=True)
    return folder
