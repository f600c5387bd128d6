"""Reading a config as written: YAML with the place of every key, overridden by environment variables and flags."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from lakehouse.config.keys import PROPERTIES, Path, all_keys, dotted, key_at, parse_dotted
from lakehouse.config.mistakes import Mistake
from lakehouse.settings.base import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX = "TIDEMARK_"
RESERVED = frozenset({"TIDEMARK_JARS", "TIDEMARK_CONFIG", "TIDEMARK_IVY_SETTINGS", "TIDEMARK_CRASH_AT", "TIDEMARK_STOP_AT"})
_TAG = "tag:yaml.org,2002:"
_TAGS = frozenset(_TAG + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map"))
_MOST_VALUES = 50_000
_MOST_LEVELS = 100
_SECOND_DOCUMENT = "but found another document"
"""What PyYAML says of it."""
_MOST_DIGITS = 500
"""Far beyond any setting. PyYAML recurses with each level, and Python refuses to read a number of some thousand digits."""
_PROPERTY_PREFIX = "TIDEMARK_KAFKA__PROPERTIES__"


@dataclass
class Source:
    """A config as given, before validation.

    Attributes:
        file: The file's name, as messages show it.
        data: The values, as plain Python data.
        places: Where each key was set.
        mistakes: Mistakes found while reading: invalid YAML, repeated keys, unknown names.
    """

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def place(self, path: Path) -> str:
        """Return where the key was set, or else a key inside it, or else the nearest key around it."""
        inside = (place for known, place in self.places.items() if path and known[: len(path)] == path)
        around = (self.places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.places)
        return self.places.get(path) or next(inside, None) or next(around, self.file)

    def put(self, path: Path, value: Any, place: str) -> None:
        """Set a value, and forget the places of what it replaces."""
        section: Any = self.data
        for part in path[:-1]:
            if not isinstance(section.get(part), dict):
                section[part] = {}
            section = section[part]
        section[path[-1]] = value
        for known in [known for known in self.places if known[: len(path)] == path]:
            del self.places[known]
        self.places[path] = place


class _Loader(yaml.SafeLoader):
    """Loader with YAML 1.2's plain scalars: `yes`, `no` and `on` are text, 0123 is not octal and 4:12 is not a time."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 -- PyYAML declares it as an instance variable, so ClassVar would contradict it
    levels = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node unless it is nested too deep."""
        _require_level(self.levels, self.peek_event().start_mark)  # type: ignore[no-untyped-call]  # PyYAML's stub has no types here
        self.levels += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.levels -= 1


for _tag, _form in {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(0|[1-9][0-9_]*)",
    "float": r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?",
}.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_tag}", re.compile(f"^(?:{_form})$"), None)


def _require_level(levels: int, mark: yaml.Mark) -> None:
    if levels > _MOST_LEVELS:
        raise yaml.constructor.ConstructorError(None, None, f"more than {_MOST_LEVELS} levels", mark)


def read_yaml(text: str, source: Source, *, has_lines: bool = True) -> None:
    """Fill the source from a file's text; mistakes in the YAML are recorded with their line, if somebody wrote lines."""
    try:
        value = _compose(
            text, source, (), lambda node: f"{source.file}:{node.start_mark.line + 1}" if has_lines else source.file
        )
    except yaml.YAMLError as error:
        source.mistakes.append(_yaml_mistake(error, source.file))
        return
    if isinstance(value, dict) and value:
        source.data = value
        return
    observed = "nothing" if not value else f"a {'list' if isinstance(value, list) else 'single value'}"
    source.mistakes.append(
        Mistake(
            "",
            source.file,
            "the file holds no settings",
            observed=observed,
            expected="a mapping with pipeline, kafka, lakehouse and sequence",
            next_step="Start with a line such as pipeline: incidents; docs/configuration.md has a whole example.",
        )
    )


def lay_environment(environ: Mapping[str, str], source: Source) -> None:
    """Override the file with every TIDEMARK_ variable, sections before the keys inside them."""
    names = (name for name in environ if name.startswith(PREFIX) and name not in RESERVED)
    for name in sorted(names, key=lambda name: (name.count("__"), name)):
        path = _path_of_variable(name)
        if key_at(path) is None or not path[-1]:
            known = [variable_name(known).removeprefix(PREFIX) for known in all_keys()]
            source.mistakes.append(_unknown(name, f"environment variable {name}", known, prefix=PREFIX))
        else:
            _lay(path, environ[name], f"environment variable {name}", source)


def lay_flags(flags: Mapping[str, str], source: Source) -> None:
    """Override the rest with every flag, given as a dotted key and its text."""
    for key in sorted(flags, key=lambda key: (key.count("."), key)):
        path = parse_dotted(key)
        if key_at(path) is None or not path[-1]:
            source.mistakes.append(_unknown(key, f"flag {key}", [dotted(known) for known in all_keys()]))
        else:
            _lay(path, flags[key], f"flag {key}", source)


def variable_name(path: Path) -> str:
    """The environment variable that sets a key.

    >>> variable_name(("kafka", "bootstrap_servers"))
    'TIDEMARK_KAFKA__BOOTSTRAP_SERVERS'
    >>> variable_name(("kafka", "properties", "sasl.jaas.config"))
    'TIDEMARK_KAFKA__PROPERTIES__SASL_JAAS_CONFIG'
    """
    return PREFIX + "__".join(str(part) for part in path).replace(".", "_").upper()


def _path_of_variable(name: str) -> Path:
    if name.startswith(_PROPERTY_PREFIX):
        # A variable's name has no dots, and no Kafka property has an underscore.
        return (*PROPERTIES, name.removeprefix(_PROPERTY_PREFIX).lower().replace("_", "."))
    return tuple(name.removeprefix(PREFIX).lower().split("__"))


def _lay(path: Path, text: str, place: str, source: Source) -> None:
    key = key_at(path)
    if path[:-1] == PROPERTIES or (key is not None and key.is_text):
        source.put(path, text or None, place)
        return
    try:
        source.put(path, _compose(text, source, path, lambda _: place), place)
    except yaml.YAMLError as error:
        source.mistakes.append(_yaml_mistake(error, place, path))


def _compose(text: str, source: Source, path: Path, place_of: Callable[[yaml.Node], str]) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else _Builder(loader, source, place_of).build(node, path)
    finally:
        loader.dispose()


@dataclass
class _Builder:
    """Turns YAML nodes into plain data, and records places and repeated keys on the way."""

    loader: _Loader
    source: Source
    place_of: Callable[[yaml.Node], str]
    around: list[yaml.Node] = field(default_factory=list)
    built: int = 0

    def build(self, node: yaml.Node, path: Path) -> Any:
        self.built += 1
        if self.built > _MOST_VALUES:  # a few lines of nested aliases expand to billions of values
            problem = f"more than {_MOST_VALUES:,} values, aliases counted each time"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        _require_level(len(self.around), node.start_mark)  # aliases of aliases are deeper than what is written
        if any(node is outer for outer in self.around):
            raise yaml.constructor.ConstructorError(None, None, "an alias that contains itself", node.start_mark)
        if node.tag not in _TAGS:
            # If accepted, an unquoted password that starts with "!" would be read as an empty text.
            raise yaml.constructor.ConstructorError(None, None, "a tag, which no setting has", node.start_mark)
        self.around.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
            return self._scalar(node, path)
        finally:
            self.around.pop()

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key that is no plain name", key_node.start_mark)
            key = key_node.value
            if key in built:
                self.source.mistakes.append(
                    Mistake(
                        dotted((*path, key)),
                        self.place_of(key_node),
                        "the key is there twice",
                        expected=f"each key once; the first is at {self.source.place((*path, key))}",
                        next_step="Remove one of the two.",
                    )
                )
                continue
            self.source.places[(*path, key)] = self.place_of(key_node)
            built[key] = self.build(value_node, (*path, key))
        return built

    def _item(self, node: yaml.Node, path: Path) -> Any:
        self.source.places[path] = self.place_of(node)
        return self.build(node, path)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        key = key_at(path)
        # Text is kept as written: a password of digits keeps its leading zeros, a property stays `true`, not True.
        is_text = path[: len(PROPERTIES)] == PROPERTIES or (key is not None and key.is_text)
        if is_text and node.tag != f"{_TAG}null":
            return node.value
        if node.tag == f"{_TAG}int" and len(node.value) > _MOST_DIGITS:
            problem = f"a number of more than {_MOST_DIGITS} digits"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return self.loader.construct_object(node)


def _unknown(name: str, place: str, known: list[str], prefix: str = "") -> Mistake:
    near = nearest(name.removeprefix(prefix), known)  # all have the prefix: with it, any two are near
    some = ", ".join(prefix + each for each in known[:8])
    hint = f"Did you mean {prefix}{near}?" if near else f"Known are {some} and so on: see docs/configuration.md."
    return Mistake(name, place, "unknown setting", expected="the name of a setting", next_step=hint)


def _yaml_mistake(error: yaml.YAMLError, place: str, path: Path = ()) -> Mistake:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
    if mark is not None and not path:
        place = f"{place}:{mark.line + 1}, column {mark.column + 1}"
    if problem == _SECOND_DOCUMENT:
        problem = "a second document begins there"
        next_step = "Remove the line --- and what follows: a file holds the config of one pipeline."
    elif "\\t" in problem:
        next_step = "Replace the tab by spaces: YAML does not allow tabs there."
    else:
        next_step = (
            "Check the brackets, quotes, colons and spaces there; put text that starts with * & ! % @ ` [ or { in quotes."
        )
    # PyYAML quotes the text it failed on. One character helps; more may be an unquoted password.
    shown = re.sub(r"(['\"])(?!\\t).{2,}\1", "some text", problem)
    return Mistake(dotted(path), place, "this is not valid YAML", observed=shown, expected="valid YAML", next_step=next_step)
