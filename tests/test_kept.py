"""What users and stored state see stays as it is, or `CHANGELOG.md` says otherwise."""

import yaml

from tests.support import kept


def test_nothing_that_users_or_stored_tables_see_was_renamed_or_taken_away() -> None:
    """Where a change is meant: `python -m tests.support.kept`, a line in CHANGELOG, and a look at the difference."""
    assert kept.kept() == yaml.safe_load(kept.FILE.read_text(encoding="utf-8"))
