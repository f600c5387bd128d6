"""The archive of classes: made by a JVM that ends, used by the next, kept for one Java and one set of jars."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.errors import ToolError
from lakehouse.machine import class_archive
from lakehouse.machine.java import java_executable
from lakehouse.spark import session

# A JVM of Spark's scripts takes its options from there too.
JVM = ["/bin/sh", "-c", 'exec "$0" $SPARK_SUBMIT_OPTS -version', str(java_executable())]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(class_archive, "_FOLDER", tmp_path)
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    return tmp_path


def started(*options: str) -> str:
    command = [str(java_executable()), *class_archive.jvm_options(), *options, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_jvms_and_sessions_start_from_the_archive_that_replaced_a_former_one(environment: Path) -> None:
    def of_session() -> str:
        return session._local("error")["spark.driver.extraJavaOptions"]

    (environment / "classes-0123456789ab.jsa").write_bytes(b"of a former Java")
    assert class_archive.jvm_options() == ()
    assert "SharedArchiveFile" not in of_session()

    made = class_archive.make(JVM)

    assert list(environment.iterdir()) == [made] == [class_archive.archive_file()]
    assert class_archive.jvm_options()[0] == f"-XX:SharedArchiveFile={made}"
    assert "sharing" in started("-Xshare:on")  # how a JVM names that it runs from archives
    assert f"-XX:SharedArchiveFile={made}" in of_session()

    made.chmod(0o600)
    made.write_bytes(b"no archive")
    assert "no archive" not in started(), "a broken one costs nothing but time"


@pytest.mark.parametrize(
    ("command", "observed"),
    [
        ([sys.executable, "-c", "raise SystemExit('no room')"], "no room"),
        ([sys.executable, "-c", ""], "exit code 0"),  # it started no JVM
        (["/no/such/program"], "No such file"),
    ],
)
def test_a_command_that_makes_none_is_an_error_and_leaves_nothing(environment: Path, command: list[str], observed: str) -> None:
    with pytest.raises(ToolError, match="was not made") as raised:
        class_archive.make(command)
    assert observed in str(raised.value)
    assert list(environment.iterdir()) == []
