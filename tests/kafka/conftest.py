"""A real broker for the tests of this folder, and topics on it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from bronze.dev_broker.broker import LocalBroker, create_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_numbers = count()


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    """The one broker of the test process."""
    with LocalBroker() as started:
        yield started


@pytest.fixture
def topic(broker: LocalBroker) -> Callable[..., str]:
    """Makes topics that no other test has, and answers their names."""

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"topic-{next(_numbers)}"
        create_topic(broker.bootstrap_servers, name, partitions, config)
        return name

    return make
