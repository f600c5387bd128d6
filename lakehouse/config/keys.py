"""The keys that a config can have, with the types and descriptions of the settings models."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from lakehouse.settings.base import Model
from lakehouse.settings.pipeline import Settings
from lakehouse.settings.policies import TopicPolicies
from lakehouse.settings.secrets import MASKED, smells_of_secret

Path: TypeAlias = tuple[str | int, ...]

PROPERTIES: Path = ("kafka", "properties")
TOPICS: Path = ("policies", "topics")
READ_OTHERWISE: Path = ("topics",)


@dataclass(frozen=True)
class Key:
    """A key of the config.

    Attributes:
        type: Its type, without Annotated and None; a model for a section.
        description: What it means; empty for an item of a list or mapping.
        example: An example value, as YAML; empty if there is none.
        declared: Its annotation and metadata in the model.
    """

    type: Any
    description: str = ""
    example: str = ""
    declared: tuple[Any, ...] = ()

    @property
    def holds_secret(self) -> bool:
        """Whether it, or a key below it, is masked where the config has it in plain text."""
        return any(_is_secret(part) for part in self.declared)

    @property
    def is_text(self) -> bool:
        """Whether a scalar here is kept as written, not read as a number or boolean."""
        return self.type is str

    def children(self) -> list[str]:
        """Return the keys below this one: a model's fields, or the only names that a mapping allows."""
        if isinstance(self.type, type) and issubclass(self.type, Model):
            return self.type.keys()
        if get_origin(self.type) is dict and get_origin(get_args(self.type)[0]) is Literal:
            return list(get_args(get_args(self.type)[0]))
        return []

    def child(self, part: str | int) -> Key | None:
        """Return the key one level below, or None if there is none."""
        if isinstance(self.type, type) and issubclass(self.type, Model):
            for name, field in self.type.model_fields.items():
                if part == (field.alias or name):
                    declared, example = (field.annotation, *field.metadata), (field.examples or [""])[0]
                    return Key(_plain(field.annotation), field.description or "", example, declared)
            return None
        if get_origin(self.type) is tuple and isinstance(part, int):
            return Key(_plain(get_args(self.type)[0]), declared=(get_args(self.type)[0],))
        if get_origin(self.type) is dict and (part in self.children() or not self.children()):
            return Key(_plain(get_args(self.type)[1]), declared=(get_args(self.type)[1],))
        return None


def _is_secret(part: Any) -> bool:
    if isinstance(part, type) and issubclass(part, Model):
        return any(_is_secret(each) for field in part.model_fields.values() for each in (field.annotation, *field.metadata))
    return part == MASKED or any(_is_secret(each) for each in get_args(part))


def _plain(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        # The last type of a union is the richest: for starting_offsets an offset per partition, not just earliest or latest.
        return _plain([arm for arm in get_args(annotation) if arm is not NoneType][-1])
    return annotation


def key_at(path: Path) -> Key | None:
    """Return the key at a path, or None if there is no such key."""
    key: Key | None = Key(Settings)
    for part in path:
        key = key.child(part) if key else None
    return key


def may_show(path: Path) -> bool:
    """Whether a message may show the text found at a path: no secret belongs there, or to a key above or below it.

    >>> may_show(("pipeline",)), may_show(("watch", "alerts")), may_show(("value", "registry", "password", 0))
    (True, False, False)
    >>> [may_show((*PROPERTIES, name)) for name in ("isolation.level", "ssl.key.password")]
    [True, False]
    """
    known = [key for end in range(1, len(path) + 1) if (key := key_at(path[:end])) is not None]
    if path[: len(PROPERTIES)] == PROPERTIES and len(path) > len(PROPERTIES):
        return not smells_of_secret(str(path[len(PROPERTIES)]))
    return not known or not known[-1].holds_secret


def all_keys(under: Path = ()) -> list[Path]:
    """Return the path of every named key, sections included; list items are left out."""
    key = key_at(under)
    here = [(*under, child) for child in (key.children() if key else [])]
    return [path for child in here for path in (child, *all_keys(child))]


def dotted(path: Path) -> str:
    """Format a path as messages show it.

    >>> dotted(("gold", "models", 0, "sql"))
    'gold.models[0].sql'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def parse_dotted(text: str) -> Path:
    """Parse a flag's dotted key. Kafka properties and topics keep the dots in their names.

    >>> parse_dotted("topics.orders.v1.sequence.json")
    ('topics', 'orders.v1', 'sequence', 'json')

    >>> parse_dotted("kafka.properties.security.protocol")
    ('kafka', 'properties', 'security.protocol')
    >>> parse_dotted("policies.topics.orders.v1.late")
    ('policies', 'topics', 'orders.v1', 'late')
    """
    for section in (PROPERTIES, TOPICS):
        name = text.removeprefix(dotted(section) + ".")
        if name != text:
            topic, _, key = name.rpartition(".")
            is_of_topic = section == TOPICS and topic and key in TopicPolicies.model_fields
            return (*section, topic, key) if is_of_topic else (*section, name)
    parts = tuple(text.split("."))
    if parts[:1] == READ_OTHERWISE:
        for end in range(2, len(parts)):
            path: Path = (*READ_OTHERWISE, ".".join(parts[1:end]), *parts[end:])
            if key_at(path) is not None:
                return path
    return parts
