"""The keys that a config can have, with the types and descriptions of the settings models."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from lakehouse.settings.base import Model
from lakehouse.settings.pipeline import Settings
from lakehouse.settings.secrets import MASKED, smells_of_secret

Path: TypeAlias = tuple[str | int, ...]

PROPERTIES: Path = ("kafka", "properties")
_WITH_DOTS: tuple[Path, ...] = (PROPERTIES, ("policies", "topics"), ("topics",))  # their keys may have dots


@dataclass(frozen=True)
class Key:
    """A key of the config, as its model declares it. An item of a list or mapping has no description and no example."""

    declared: Any
    description: str = ""
    example: str = ""
    metadata: Sequence[Any] = ()

    @property
    def type(self) -> Any:
        """The declared type, without Annotated and None."""
        return _plain(self.declared)

    @property
    def holds_secret(self) -> bool:
        """Whether the key, or one below it, is masked even if the config has it in plain text."""
        return any(_is_secret(part) for part in (self.declared, *self.metadata))

    def children(self) -> "dict[str, Key]":
        """Return the keys below this one: a model's fields, or the only names that a mapping allows."""
        if _is_model(self.type):
            return {
                self.type.key_of(name): Key(each.annotation, each.description or "", (each.examples or [""])[0], each.metadata)
                for name, each in self.type.model_fields.items()
            }
        if get_origin(self.type) is dict:
            names, declared = get_args(self.type)
            return {name: Key(declared) for name in get_args(names) if get_origin(names) is Literal}
        return {}

    def child(self, part: str | int) -> "Key | None":
        """Return the key one level below, or None if there is none."""
        children = self.children()
        if children or _is_model(self.type):
            return children.get(str(part))
        if get_origin(self.type) is tuple and isinstance(part, int):
            return Key(get_args(self.type)[0])
        return Key(get_args(self.type)[1]) if get_origin(self.type) is dict else None


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, Model)


def _is_secret(part: Any) -> bool:
    if _is_model(part):
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
    """Whether a message may show the text at a path: neither the path nor a key above or below it is for a secret.

    >>> may_show(("pipeline",)), may_show(("watch", "alerts")), may_show(("value", "registry", "password", 0))
    (True, False, False)
    >>> [may_show((*PROPERTIES, name)) for name in ("isolation.level", "ssl.key.password")]
    [True, False]
    """
    if path[: len(PROPERTIES)] == PROPERTIES and len(path) > len(PROPERTIES):
        return not smells_of_secret(str(path[len(PROPERTIES)]))
    known = next((key for end in range(len(path), 0, -1) if (key := key_at(path[:end])) is not None), None)
    return known is None or not known.holds_secret


def all_keys(under: Path = ()) -> list[Path]:
    """Return the path of every named key, sections included; list items are left out."""
    key = key_at(under)
    here = [(*under, child) for child in (key.children() if key else [])]
    return [path for child in here for path in (child, *all_keys(child))]


def dotted(path: Path) -> str:
    """Format a path for messages.

    >>> dotted(("gold", "models", 0, "sql"))
    'gold.models[0].sql'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def parse_dotted(text: str) -> Path:
    """Parse a flag's dotted key. Kafka properties and topics keep the dots of their names.

    >>> parse_dotted("topics.orders.v1.sequence.json"), parse_dotted("policies.topics.orders.v1.late")
    (('topics', 'orders.v1', 'sequence', 'json'), ('policies', 'topics', 'orders.v1', 'late'))
    >>> parse_dotted("kafka.properties.security.protocol")
    ('kafka', 'properties', 'security.protocol')
    """
    parts: Path = tuple(text.split("."))
    section = next((each for each in _WITH_DOTS if parts[: len(each)] == each), None)
    if section is None or parts == section:
        return parts
    start = len(section)
    splits = ((*section, ".".join(map(str, parts[start:end])), *parts[end:]) for end in range(start + 1, len(parts)))
    whole = (*section, ".".join(map(str, parts[start:])))
    return next((path for path in splits if path[start] and key_at(path)), parts if section == ("topics",) else whole)
