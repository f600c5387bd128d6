"""The path and version of the Java that every JVM of Tidemark starts from, and the JVM's options."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from lakehouse.errors import ToolError

MINIMUM_VERSION = 17
_DOES_NOT_RUN = "The Java that was found does not run."
SECOND_COMPILER_LATE = (
    *("-XX:Tier4InvocationThreshold=100000", "-XX:Tier4MinInvocationThreshold=12000"),
    *("-XX:Tier4CompileThreshold=300000", "-XX:Tier4BackEdgeThreshold=800000"),
)
"""Twenty times the default thresholds: Spark and Delta run much code, but each part only briefly. See decision 0080."""
FIRST_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""For a JVM that runs for seconds. In its default code cache of 48 MiB, the first compiler recompiles the same code."""
AVRO_LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": 16_777_216,
    "org.apache.avro.limits.string.maxLength": 16_777_216,
    "org.apache.avro.limits.collectionItems.maxLength": 1_000_000,
}
"""Limits on the bytes of a text and the items of a list or map. Without them, ten bytes of Avro can end the JVM."""
AVRO_OPTIONS = " ".join(f"-D{name}={most}" for name, most in AVRO_LIMITS.items())
HOW_TO_GET_JAVA = (
    "Install Java 17 or later (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17; "
    "others: any OpenJDK build), or set JAVA_HOME to the folder of the one you have."
)


def java_executable() -> Path:
    """Return the `java` of JAVA_HOME, or else the first one on the PATH; raise a `ToolError` if there is none."""
    if home := os.environ.get("JAVA_HOME"):
        candidate = Path(home) / "bin" / "java"
        # Without a fallback to the PATH: Spark's launcher follows a wrong JAVA_HOME too.
        if not os.access(candidate, os.X_OK):
            raise ToolError(
                "JAVA_HOME holds no Java.",
                where="environment variable JAVA_HOME",
                observed=home,
                expected="a folder with an executable bin/java",
                next_step=f"Correct or unset JAVA_HOME. {HOW_TO_GET_JAVA}",
            )
        return candidate
    if (found := shutil.which("java")) is None:
        raise _unusable("There is no Java on this machine.", "PATH", "no java")
    return Path(found)


def java_version() -> int:
    """Return the major version of that Java (8 for the old form `1.8.0`); raise a `ToolError` if it does not run."""
    executable = java_executable()
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unusable(_DOES_NOT_RUN, str(executable), str(error)) from error
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode != 0 or version is None:
        # macOS ships a /usr/bin/java that only says where to get one.
        raise _unusable(_DOES_NOT_RUN, str(executable), (answer.stderr or answer.stdout).strip())
    return int(version[1])


def _unusable(what: str, where: str, observed: str) -> ToolError:
    expected = f"Java {MINIMUM_VERSION} or later"
    return ToolError(what, where=where, observed=observed, expected=expected, next_step=HOW_TO_GET_JAVA)
