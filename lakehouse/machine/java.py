"""The path and version of this machine's Java. Everything that starts a JVM asks here, so that all start the same one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from lakehouse.errors import ToolError

MINIMUM_VERSION = 17
SECOND_COMPILER_LATE = (
    *("-XX:Tier4InvocationThreshold=100000", "-XX:Tier4MinInvocationThreshold=12000"),
    *("-XX:Tier4CompileThreshold=300000", "-XX:Tier4BackEdgeThreshold=800000"),
)
"""Twenty times the usual thresholds: Spark and Delta run much code, and little of it for long. See decision 0080."""
FIRST_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""For a JVM of seconds. With its default of 48 MiB for code, the first compiler would drop and recompile the same code."""
AVRO_LIMITS = {
    "org.apache.avro.limits.bytes.maxLength": 16_777_216,
    "org.apache.avro.limits.string.maxLength": 16_777_216,
    "org.apache.avro.limits.collectionItems.maxLength": 1_000_000,
}
"""Properties of the JVM: the most bytes of a text, and the most items of a list or map. Without them, ten bytes of Avro that
name a list of two billion items end the JVM."""
AVRO_OPTIONS = " ".join(f"-D{name}={most}" for name, most in AVRO_LIMITS.items())
HOW_TO_GET_JAVA = (
    "Install a JDK of 17 or later (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17; "
    "others: your package manager or any OpenJDK build), or point JAVA_HOME at the one you have."
)


def java_executable() -> Path:
    """Return the `java` of JAVA_HOME, or else the first one on the PATH; raise a `ToolError` if it is not there."""
    home = os.environ.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        # A wrong JAVA_HOME is reported, not worked around: Spark's own launcher would follow it.
        if not os.access(candidate, os.X_OK):
            raise ToolError(
                "JAVA_HOME does not lead to a Java.",
                where="environment variable JAVA_HOME",
                observed=home,
                expected="a folder with an executable bin/java",
                next_step=f"Correct or unset JAVA_HOME. {HOW_TO_GET_JAVA}",
            )
        return candidate
    found = shutil.which("java")
    if found is None:
        raise ToolError(
            "There is no Java on this machine.",
            where="PATH",
            observed="no java",
            expected=f"Java {MINIMUM_VERSION} or later",
            next_step=HOW_TO_GET_JAVA,
        )
    return Path(found)


def java_version() -> int:
    """Return the major version of that Java (8 for the old form `1.8.0`); raise a `ToolError` if it does not answer."""
    executable = java_executable()
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unusable(executable, str(error)) from error
    version = parse_version(answer.stderr + answer.stdout)
    if answer.returncode != 0 or version is None:
        raise _unusable(executable, (answer.stderr or answer.stdout).strip())
    return version


def parse_version(answer: str) -> int | None:
    """Return the major version in the output of `java -version`, or None if there is none.

    >>> [parse_version(each) for each in ('openjdk version "17.0.15" 2025-04-15', 'java version "1.8.0_392"', "No Java")]
    [17, 8, None]
    """
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match.group(1)) if match else None


def _unusable(executable: Path, observed: str) -> ToolError:
    # macOS ships a /usr/bin/java that only says where to get one.
    return ToolError(
        "The Java that was found does not run.",
        where=str(executable),
        observed=observed,
        expected=f"Java {MINIMUM_VERSION} or later",
        next_step=HOW_TO_GET_JAVA,
    )
