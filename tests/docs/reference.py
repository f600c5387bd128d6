"""What is written from the code: the commands, of each key of a config its type and default; and the list of decisions.

`python -m tests.docs.reference` writes them anew. What else the pages say is kept.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from jobs.cli.commands import SECTIONS, app
from lakehouse.settings.base import Model
from lakehouse.settings.pipeline import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS, KEYS, DECISIONS = DOCS / "commands.md", DOCS / "configuration.md", DOCS / "decisions" / "README.md"
_HEAD = "<!-- Below this line the page is written from the code: python -m tests.docs.reference -->\n"
_ROW = re.compile(r"(?m)^\| (?P<name>`[a-z_.\[\]A-Z]+`) \|[^|\n]*\|[^|\n]*\| (?P<rest>.*)$")
_WIDTH = 100
_NAMED = {"TOPIC": "t", "MEASURE": "late"}
"""Parts of a key that stand for any topic or measure, and one of each."""


def commands_page(text: str) -> str:
    """Return the page of commands with everything below its line written anew."""
    head, line, _ = text.partition(_HEAD)
    return head + line + "\n" + "\n".join(_commands())


def _commands() -> Iterator[str]:
    root: Any = typer.main.get_command(app)
    whole = root.make_context("tidemark", [], resilient_parsing=True, terminal_width=_WIDTH)
    for title, names in SECTIONS.items():
        yield f"## {title}\n"
        for path, command in (each for name in names for each in leaves(root.commands[name], name)):
            context = command.make_context(path, [], parent=whole, resilient_parsing=True)
            yield f"### tidemark {path}\n\n```text\n{command.get_help(context).strip()}\n```\n"


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command below a command or group, with the words that call it."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, child in command.commands.items():
        yield from leaves(child, f"{path} {name}".strip())


def decisions_page(text: str) -> str:
    """Return the list of decisions with a line for each page."""
    head, line, _ = text.partition(_HEAD)
    pages = {file.name: file.read_text(encoding="utf-8").partition("\n")[0] for file in sorted(DECISIONS.parent.glob("0*.md"))}
    return head + line + "\n" + "".join(f"- [{title.removeprefix('# ')}]({name})\n" for name, title in pages.items())


def keys_page(text: str) -> str:
    """Return the page of keys with the type and default of each row as the settings have them.

    Raises:
        KeyError: A row names a key that no config can have.
    """
    return _ROW.sub(_row, text)


def _row(found: re.Match[str]) -> str:
    key = found["name"].strip("`")
    field = _field(key)
    may_be_null = NoneType in get_args(field.annotation) and field.default is not None
    kind = _type(field.annotation, field.metadata) + (", or null" if may_be_null else "")
    default = _default(field)
    if "TOPIC" in key:
        default = "as in `policies`" if key.startswith("policies.") else "as at the top"
    return " | ".join([f"| {found['name']}", kind, default, found["rest"]])


def _field(key: str) -> FieldInfo:
    kind: Any = Settings
    field: FieldInfo | None = None
    for part in key.replace("[]", ".[]").split("."):
        if isinstance(kind, type) and issubclass(kind, Model):
            field = {each.alias or name: each for name, each in kind.model_fields.items()}[part]
            kind = _bare(field.annotation)
        elif get_origin(kind) in {tuple, list, dict} and (part == "[]" or part in _NAMED):
            kind = _bare(get_args(kind)[0 if part == "[]" else 1])
        else:
            raise KeyError(key)
    if field is None:
        raise KeyError(key)
    return field


def _bare(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return _bare([arm for arm in get_args(annotation) if arm is not NoneType][-1])
    return annotation


def _type(annotation: Any, metadata: list[Any]) -> str:  # noqa: PLR0911 -- one line for each kind of type
    if get_origin(annotation) is Annotated:
        return _type(get_args(annotation)[0], [*get_args(annotation)[1:], *metadata])
    if get_origin(annotation) in {Union, UnionType}:
        arms = [arm for arm in get_args(annotation) if arm is not NoneType]
        return ", or ".join(_type(arm, metadata) for arm in arms)
    if get_origin(annotation) is Literal:
        names = [_cell("true" if each is True else str(each)) for each in get_args(annotation)]
        return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    if get_origin(annotation) in {tuple, list, dict}:
        last = _bare(get_args(annotation)[0 if get_origin(annotation) is tuple else -1])
        return ("mapping" if get_origin(annotation) is dict else "list") + (" of text" if last is str else "")
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return "section"
    if annotation in {int, float}:
        return {int: "whole number", float: "number"}[annotation] + _bounds(metadata)
    return {bool: "true or false", str: "text", Path: "path"}[annotation]


def _bounds(metadata: list[Any]) -> str:
    flat = [one for each in metadata for one in (each.metadata if isinstance(each, FieldInfo) else [each])]
    least = next((each.ge for each in flat if isinstance(each, Ge)), None)
    most = next((each.le for each in flat if isinstance(each, Le)), None)
    above = next((each.gt for each in flat if isinstance(each, Gt)), None)
    words = [f"from {least}"] if least is not None else [f"above {above}"] if above is not None else []
    return "".join(f" {word}" for word in [*words, *([f"to {most}"] if most is not None else [])])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None or default is PydanticUndefined:
        return "null"
    if isinstance(default, Model):
        return "its defaults"
    return _cell({True: "true", False: "false"}[default] if isinstance(default, bool) else _yaml(default))


def _yaml(value: Any) -> str:
    return "{}" if value == {} else "[]" if value in ((), []) else str(value)


def _cell(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`" if text else ""


PAGES = {COMMANDS: commands_page, KEYS: keys_page, DECISIONS: decisions_page}
"""The pages, and what writes the generated part of each anew."""


def main() -> None:
    """Write the generated parts of all pages anew."""
    for file, written in PAGES.items():
        file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
