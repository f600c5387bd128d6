"""Reads a config with the place of each key. pydantic-settings would merge a flag's section and ignore misspelt variables."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from lakehouse.config.keys import PROPERTIES, Path, all_keys, dotted, key_at, parse_dotted
from lakehouse.config.mistakes import Mistake
from lakehouse.settings.base import nearest

PREFIX = "TIDEMARK_"
RESERVED = frozenset({"TIDEMARK_JARS", "TIDEMARK_CONFIG", "TIDEMARK_IVY_SETTINGS", "TIDEMARK_CRASH_AT", "TIDEMARK_STOP_AT"})
_TAG = "tag:yaml.org,2002:"
_MOST_VALUES, _MOST_LEVELS, _MOST_DIGITS = 50_000, 100, 500
"""Far more than any config needs. PyYAML recurses with each level, and Python refuses numbers of thousands of digits."""
_SCALARS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    f"{_TAG}null": (re.compile("^(?:~|null|Null|NULL|)$"), lambda _: None),
    f"{_TAG}bool": (re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), lambda text: text.lower() == "true"),
    f"{_TAG}int": (re.compile("^(?:[-+]?(0|[1-9][0-9_]*))$"), lambda text: int(text.replace("_", ""))),
    f"{_TAG}float": (re.compile(r"^(?:[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?)$"), float),
}
"""YAML 1.2's plain scalars: `yes`, `no` and `on` are text, 0123 is not octal and 4:12 is not a time."""


@dataclass
class Source:
    """A config before validation: its values, where each key was set, and mistakes found while reading."""

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def place(self, path: Path) -> str:
        """Return where the key was set, else a key below it, else the nearest key above it."""
        inside = (place for known, place in self.places.items() if path and known[: len(path)] == path)
        around = (self.places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.places)
        return self.places.get(path) or next(inside, None) or next(around, self.file)

    def put(self, path: Path, value: Any, place: str) -> None:
        """Set a value, and remove the places of the values that it replaces."""
        section: Any = self.data
        for part in path[:-1]:
            if not isinstance(section.get(part), dict):
                section[part] = {}
            section = section[part]
        section[path[-1]] = value
        self.places = {known: each for known, each in self.places.items() if known[: len(path)] != path}
        self.places[path] = place


class _Loader(yaml.SafeLoader):
    """Composes nodes with the plain scalars of `_SCALARS`, and refuses those that are nested too deep."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 -- PyYAML declares it as an instance variable, so ClassVar would contradict it
    levels = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        _require_level(self.levels, self.peek_event().start_mark)  # type: ignore[no-untyped-call]  # PyYAML's stub has no types here
        self.levels += 1
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node


for _tag, (_form, _) in _SCALARS.items():
    _Loader.add_implicit_resolver(_tag, _form, None)


def _require_level(levels: int, mark: yaml.Mark) -> None:
    if levels > _MOST_LEVELS:
        raise ConstructorError(None, None, f"more than {_MOST_LEVELS} levels", mark)


def read_yaml(text: str, source: Source, *, has_lines: bool = True) -> None:
    """Fill the source from a file's text. With `has_lines`, places and mistakes name the line."""
    try:
        value = _Builder(source, source.file, has_lines=has_lines).read(text, ())
    except yaml.YAMLError as error:
        source.mistakes.append(_yaml_mistake(error, source.file))
        return
    if isinstance(value, dict) and value:
        source.data = value
        return
    observed = "nothing" if not value else "a list" if isinstance(value, list) else "a single value"
    expected = "a mapping with pipeline, kafka, lakehouse and sequence"
    next_step = "Start with a line such as pipeline: incidents; docs/configuration.md has a complete example."
    source.mistakes.append(Mistake("", source.file, "the file holds no settings", observed, expected, next_step))


def apply_overrides(environ: Mapping[str, str], flags: Mapping[str, str], source: Source) -> None:
    """Override the file with each TIDEMARK_ variable, then with each flag, sections before the keys inside them."""
    names = (name for name in environ if name.startswith(PREFIX) and name not in RESERVED)
    for name in sorted(names, key=lambda name: (name.count("__"), name)):
        _apply(_path_of_variable(name), environ[name], ("environment variable", name), source)
    for key in sorted(flags, key=lambda key: (key.count("."), key)):
        _apply(parse_dotted(key), flags[key], ("flag", key), source)


def variable_name(path: Path) -> str:
    """Return the environment variable that sets a key.

    >>> variable_name(("kafka", "properties", "sasl.jaas.config"))
    'TIDEMARK_KAFKA__PROPERTIES__SASL_JAAS_CONFIG'
    """
    return PREFIX + "__".join(str(part) for part in path).replace(".", "_").upper()


def _path_of_variable(name: str) -> Path:
    of_properties = f"{variable_name(PROPERTIES)}__"
    if name.startswith(of_properties):
        # A variable's name has no dots, and no Kafka property has an underscore.
        return (*PROPERTIES, name.removeprefix(of_properties).lower().replace("_", "."))
    return tuple(name.removeprefix(PREFIX).lower().split("__"))


def _apply(path: Path, text: str, origin: tuple[str, str], source: Source) -> None:
    place = " ".join(origin)
    if key_at(path) is None or not path[-1]:
        source.mistakes.append(_unknown(*origin))
    elif path != PROPERTIES and _is_text(path):
        source.put(path, text or None, place)
    else:
        try:
            source.put(path, _Builder(source, place, has_lines=False).read(text, path), place)
        except yaml.YAMLError as error:
            source.mistakes.append(_yaml_mistake(error, place, path))


def _is_text(path: Path) -> bool:
    """Whether a value is kept as written: a password of digits keeps its leading zeros, and a property stays `true`."""
    key = key_at(path)
    return path[: len(PROPERTIES)] == PROPERTIES or (key is not None and key.type is str)


@dataclass
class _Builder:
    """Builds plain data from YAML, and records places and repeated keys."""

    source: Source
    where: str
    has_lines: bool
    around: list[yaml.Node] = field(default_factory=list)
    built: int = 0

    def read(self, text: str, path: Path) -> Any:
        node = yaml.compose(text, Loader=_Loader)
        return None if node is None else self._build(node, path)

    def _place(self, node: yaml.Node) -> str:
        return f"{self.where}:{node.start_mark.line + 1}" if self.has_lines else self.where

    def _build(self, node: yaml.Node, path: Path) -> Any:
        self.built += 1
        if self.built > _MOST_VALUES:  # a few lines of nested aliases expand to billions of values
            raise _refused(f"more than {_MOST_VALUES:,} values, aliases counted each time", node)
        _require_level(len(self.around), node.start_mark)  # aliases may nest deeper than the text
        if any(node is outer for outer in self.around):
            raise _refused("an alias that contains itself", node)
        if node.tag not in {*_SCALARS, *(f"{_TAG}{kind}" for kind in ("str", "seq", "map"))}:
            # An unquoted password that starts with "!" would be read as an empty text.
            raise _refused("a tag, which no setting has", node)
        if not isinstance(node, yaml.CollectionNode):
            return self._scalar(node, path)
        self.around.append(node)
        found = self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._list(node, path)
        self.around.pop()
        return found

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _refused("a key that is no plain name", key_node)
            inner = (*path, key_node.value)
            if key_node.value in built:
                what, expected = "the key occurs twice", f"each key once; the first is at {self.source.place(inner)}"
                twice = Mistake(dotted(inner), self._place(key_node), what, None, expected, "Remove one of the two.")
                self.source.mistakes.append(twice)
                continue
            self.source.places[inner] = self._place(key_node)
            built[key_node.value] = self._build(value_node, inner)
        return built

    def _list(self, node: yaml.CollectionNode, path: Path) -> list[Any]:
        self.source.places |= {(*path, index): self._place(item) for index, item in enumerate(node.value)}
        return [self._build(item, (*path, index)) for index, item in enumerate(node.value)]

    @staticmethod
    def _scalar(node: yaml.Node, path: Path) -> Any:
        text = str(node.value)
        if node.tag == f"{_TAG}str" or (_is_text(path) and node.tag != f"{_TAG}null"):
            return text
        if node.tag == f"{_TAG}int" and len(text) > _MOST_DIGITS:
            raise _refused(f"a number of more than {_MOST_DIGITS} digits", node)
        if node.tag not in _SCALARS or not _SCALARS[node.tag][0].match(text):
            raise _refused("a value that its tag does not allow", node)
        return _SCALARS[node.tag][1](text)


def _refused(problem: str, node: yaml.Node) -> ConstructorError:
    return ConstructorError(None, None, problem, node.start_mark)


def _unknown(kind: str, name: str) -> Mistake:
    prefix = "" if kind == "flag" else PREFIX
    known = [variable_name(path).removeprefix(prefix) if prefix else dotted(path) for path in all_keys()]
    near = nearest(name.removeprefix(prefix), known)  # with their common prefix, any two are near
    some = ", ".join(prefix + each for each in known[:8])
    next_step = f"Did you mean {prefix}{near}?" if near else f"Known are {some} ...: see docs/configuration.md."
    return Mistake(name, f"{kind} {name}", "unknown setting", None, "the name of a setting", next_step)


def _yaml_mistake(error: yaml.YAMLError, place: str, path: Path = ()) -> Mistake:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
    if mark is not None and not path:
        place = f"{place}:{mark.line + 1}, column {mark.column + 1}"
    next_step = "Check the brackets, quotes, colons and spaces there; put text that starts with * & ! % @ ` [ or { in quotes."
    if problem == "but found another document":
        problem = "a second document begins there"
        next_step = "Remove the line --- and all after it: a file holds the config of one pipeline."
    elif "\\t" in problem:
        next_step = "Replace the tab by spaces: YAML does not allow tabs there."
    # PyYAML quotes the text. One character helps; more may be an unquoted password.
    shown = re.sub(r"(['\"])(?!\\t).{2,}\1", "some text", problem)
    return Mistake(dotted(path), place, "this is not valid YAML", shown, "valid YAML", next_step)
