"""Python environments in the cache folder, for requirements that conflict with ours. Start only their `python`."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.support.served import kept_program


def kept_environment(*requirements: str) -> Path:
    """The Python of an environment with these packages, and ours behind its own."""

    def make(work: Path) -> Path:
        venv.create(work / "environment", with_pip=True, symlinks=True)
        _show_ours(work / "environment")
        python = work / "environment" / "bin" / "python"
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *requirements], check=True, capture_output=True, timeout=1_500)
        return work / "environment"

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = kept_program(f"python{version}-{'-'.join(requirements).replace('==', '-')}", make)
    _show_ours(place)
    return place / "bin" / "python"


def _show_ours(environment: Path) -> None:
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
