"""The options and arguments that several commands take."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

_CONFIG = typer.Option("--config", envvar="TIDEMARK_CONFIG", metavar="FILE", help="The pipeline's YAML file.")
ConfigFile = Annotated[Path, _CONFIG]
OptionalConfigFile = Annotated[Path | None, _CONFIG]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key of the config, dotted: kafka.topics=[a]. May be repeated."),
]
DEFAULT_CONFIG = Path("tidemark.yml")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Limit = Annotated[int, typer.Option("--limit", metavar="ROWS", min=1, help="The most to list; the rest is counted.")]
Topic = Annotated[str, typer.Argument(help="The Kafka topic.")]
Partition = Annotated[int, typer.Argument(min=0, help="The partition.")]
Offset = Annotated[int, typer.Argument(min=0, help="The offset of the record.")]
BrokerFolder = Annotated[Path | None, typer.Option("--folder", help="Where the broker keeps its records.")]

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the tables.")]
By = Annotated[str | None, typer.Option("--by", help="Who decides; kept in the tables. The user of this machine by default.")]
Key = Annotated[str | None, typer.Option("--key", help="The records' key as UTF-8 text. The list of processes shows it.")]
KeyHex = Annotated[str | None, typer.Option("--key-hex", help="The records' key in hexadecimal, as visible as --key.")]
_KEY_FILE = "A file that holds the key's bytes, - for stdin; without its last newline."
KeyFile = Annotated[str | None, typer.Option("--key-file", metavar="FILE", help=_KEY_FILE)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report the result; write nothing.")]


def command_line(name: str, config: Path) -> str:
    """Return a command with its config, quoted for a shell.

    >>> command_line("plan", Path("tidemark.yml")), command_line("plan", Path("my orders.yml"))
    ('tidemark plan', "tidemark plan --config 'my orders.yml'")
    """
    return f"tidemark {name}" + ("" if config == DEFAULT_CONFIG else f" --config {shlex.quote(str(config))}")
