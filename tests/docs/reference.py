"""`python -m tests.docs.reference` writes what pages have from the code: commands, types and defaults of keys, decisions."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from lakehouse.settings.pipeline import Settings
from tidemark.commands.commands import SECTIONS, app

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS, KEYS, DECISIONS = DOCS / "commands.md", DOCS / "configuration.md", DOCS / "decisions" / "README.md"
_HEAD = "<!-- Below this line the page is written from the code: python -m tests.docs.reference -->\n"
_ROW = re.compile(r"(?m)^\| (?P<name>`[a-z_.\[\]A-Z]+`) \|[^|\n]*\|[^|\n]*\| (?P<rest>.*)$")
_WIDTH = 100
_NAMED = {"TOPIC", "MEASURE"}  # parts of a key that mean any topic or measure
_KINDS = {"array": "list", "boolean": "true or false", "integer": "whole number", "object": "mapping", "string": "text"}
_BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
_NULL = {"type": "null"}
_SCHEMA = Settings.model_json_schema()
_READ_BY_OURS = {"kafka.starting_offsets": "text, or mapping", "kafka.properties": "mapping of text"}
"""Keys without a type in the schema: a function of ours reads them."""


def commands_page(text: str) -> str:
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
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, child in command.commands.items():
        yield from leaves(child, f"{path} {name}".strip())


def decisions_page(text: str) -> str:
    head, line, _ = text.partition(_HEAD)
    pages = {file.name: file.read_text(encoding="utf-8").partition("\n")[0] for file in sorted(DECISIONS.parent.glob("0*.md"))}
    return head + line + "\n" + "".join(f"- [{title.removeprefix('# ')}]({name})\n" for name, title in pages.items())


def keys_page(text: str) -> str:
    """Return the page of keys with each row's type and default; a `KeyError` for a key that no config can have."""
    return _ROW.sub(_row, text)


def _row(found: re.Match[str]) -> str:
    key = found["name"].strip("`")
    schema, is_required = _SCHEMA, True
    for part in key.replace("[]", ".[]").split("."):
        above = _section(schema)
        below = "items" if part == "[]" else "additionalProperties" if part in _NAMED else "properties"
        schema = above[below][part] if below == "properties" else above[below]
        is_required = part in above.get("required", ())
    default = "required" if is_required else _cell(schema["default"]) if "default" in schema else "its defaults"
    may_be_null = _NULL in schema.get("anyOf", ()) and default != "null"
    kind = (_READ_BY_OURS.get(key) or _type(schema)) + (", or null" if may_be_null else "")
    if "TOPIC" in key:
        default = "as in `policies`" if key.startswith("policies.") else "as at the top"
    return " | ".join([f"| {found['name']}", kind, default, found["rest"]])


def _section(schema: dict[str, Any]) -> dict[str, Any]:
    last = [arm for arm in schema.get("anyOf", [schema]) if arm != _NULL][-1]
    found: dict[str, Any] = _SCHEMA["$defs"][last["$ref"].rpartition("/")[2]] if "$ref" in last else last
    return found


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return ", or ".join(_type(arm) for arm in schema["anyOf"] if arm != _NULL)
    if "$ref" in schema:
        return "section"
    if values := schema.get("enum", [schema["const"]] if "const" in schema else None):
        names = [_cell(value) for value in values]
        return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    kind = "path" if schema.get("format") == "path" else _KINDS.get(schema["type"], schema["type"])
    inner = schema.get({"list": "items", "mapping": "additionalProperties"}.get(kind, ""))
    bounds = "".join(f" {word} {schema[name]}" for name, word in _BOUNDS.items() if name in schema)
    return kind + (" of text" if isinstance(inner, dict) and inner.get("type") == "string" else "") + bounds


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    return "`" + text.replace("|", "\\|") + "`" if text else ""


PAGES = {COMMANDS: commands_page, KEYS: keys_page, DECISIONS: decisions_page}
"""The pages, and what writes the generated part of each anew."""


def main() -> None:
    for file, written in PAGES.items():
        file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
