"""One broker for the senders of the kit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bronze.dev_broker.broker import LocalBroker
from tests.support.producing import Kit


@pytest.fixture
def kit(broker: LocalBroker, topic: Callable[..., str], tmp_path: Path) -> Kit:
    return Kit(broker.bootstrap_servers, topic, tmp_path)
