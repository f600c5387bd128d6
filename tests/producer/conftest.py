"""One broker for the senders of the kit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.producing import Kit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bronze.dev_broker.broker import LocalBroker


@pytest.fixture
def kit(broker: LocalBroker, topic: Callable[..., str], tmp_path: Path) -> Kit:
    """The broker for senders of the kit."""
    return Kit(broker.bootstrap_servers, topic, tmp_path)
