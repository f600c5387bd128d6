"""What Tidemark writes beside the tables is for the user of the process alone, and under names that nobody can guess."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.machine import private_files
from lakehouse.sidecar_files import Files
from lakehouse.table import Lakehouse
from tidemark.extras.watch import metrics, state
from tidemark.process import output
from tidemark.readers import files as query


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_runs_report_and_state_are_the_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    result = Path(Files(str(tmp_path / "lake" / "_reports")).write("r1.json", "{}"))
    state.write((Files(str(tmp_path / "lake" / "_watch")), "state.json"), state.State())

    files = sorted(path for path in (tmp_path / "lake").rglob("*") if path.is_file())
    assert files == [result, tmp_path / "lake" / "_watch" / "state.json"]
    assert [(mode(path), mode(path.parent)) for path in files] == [(0o600, 0o700)] * 2


@pytest.mark.parametrize("name", ["state.tmp", ".report.html.unfinished"])
def test_a_link_that_waits_under_a_name_of_before_is_not_followed(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched", encoding="utf-8")
    (tmp_path / name).symlink_to(victim)

    private_files.replace_file(tmp_path / "state.json", "{}")
    with output.whole(tmp_path / "report.html") as unfinished:
        unfinished.write_text("<html>", encoding="utf-8")

    assert victim.read_text(encoding="utf-8") == "untouched"
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "<html>"
    assert mode(tmp_path / "report.html") == 0o666  # as the umask has it: whoever names a file gives it to whom they want
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({name, "report.html", "state.json", "victim"})


def test_others_can_read_new_metrics_whatever_the_umask_and_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    os.umask(0o077)
    file = tmp_path / "tidemark.prom"
    metrics.write_file(str(file))
    assert mode(file) == 0o644
    file.chmod(0o440)
    metrics.write_file(str(file))
    assert mode(file) == 0o440


def test_a_folder_keeps_its_mode_and_a_file_that_cannot_be_finished_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "_reports").mkdir(mode=0o750)
    assert mode(private_files.folder(tmp_path / "_reports")) == 0o750
    with pytest.raises(UnicodeEncodeError):
        private_files.replace_file(tmp_path / "_reports" / "state.json", "\ud800")
    assert list((tmp_path / "_reports").iterdir()) == []


def test_a_query_spills_into_a_folder_of_its_own_that_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tidemark-sql").symlink_to(tmp_path / "elsewhere")

    with query.connect(Lakehouse(root=str(tmp_path / "lake"))) as opened:
        opened.connection.execute("SET memory_limit = '40MB'")
        opened.connection.execute("CREATE TABLE a AS SELECT random(), repeat('x', 200) FROM range(400000)")
        [place] = opened.connection.execute("SELECT current_setting('temp_directory')").fetchone() or ("",)
        assert [*Path(place).iterdir()] != []
        assert mode(Path(place).parent) == 0o700

    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == ["elsewhere", "tidemark-sql"]
