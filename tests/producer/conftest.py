"""One broker for the senders of the kit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.producing import Kit
from tidemark.extras.demo.broker import LocalBroker


@pytest.fixture
def kit(broker: LocalBroker, topic: Callable[..., str], tmp_path: Path) -> Kit:
    return Kit(broker.bootstrap_servers, topic, tmp_path)
