"""Kafka properties in another case: Spark lower-cases their names, so a check of the name alone would be stepped over."""

from __future__ import annotations

import pytest
from pydantic import SecretStr, ValidationError

from lakehouse.settings.kafka import _OWNED, Kafka
from tests.lakehouse.config.test_mistakes import PROPERTIES

VALUES = {name: value.strip("'") for name, value, _ in PROPERTIES if name not in ("a", "kafka.acks")} | dict.fromkeys(
    _OWNED, "x"
)


@pytest.mark.parametrize("spelt", [str, str.upper, str.title, str.capitalize, lambda name: name[:-1] + name[-1].upper()])
@pytest.mark.parametrize("name", VALUES)
def test_what_is_refused_is_refused_however_it_is_spelt(name: str, spelt: type[str]) -> None:
    with pytest.raises(ValidationError):
        Kafka(bootstrap_servers="b:1", topics=("t",), properties={spelt(name): VALUES[name]})


@pytest.mark.parametrize("name", ["client.id ", " client.id", "client\u2024id", "client.\u0131d", "client.id\n", ""])
def test_a_name_is_plain_text(name: str) -> None:
    with pytest.raises(ValidationError, match="no name of a property"):
        Kafka(bootstrap_servers="b:1", topics=("t",), properties={name: "x"})


def test_the_same_property_twice_in_two_cases_is_refused() -> None:
    both: dict[str, SecretStr | str] = {"isolation.level": "read_committed", "ISOLATION.LEVEL": "read_uncommitted"}
    with pytest.raises(ValidationError, match="no name of a property"):
        Kafka(bootstrap_servers="b:1", topics=("t",), properties=both)
