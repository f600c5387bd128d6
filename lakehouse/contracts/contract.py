"""A contract: the columns of a table, declared once and checked where rows are written or read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.errors import ContractError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

HEADERS = "array<struct<key:string,value:binary>>"
ERASED = "struct<load_seq:bigint,up_to_offset:bigint>"
ERASED_IN_BRONZE = (
    "struct<load_seq:bigint,up_to_offset:bigint,"
    "producer:string,epoch:bigint,sequence:bigint,problem:string,is_collision:boolean>"
)
RANGES = "array<struct<epoch:bigint,first_sequence:bigint,last_sequence:bigint>>"
LOST = "array<struct<partition:int,first_offset:bigint,last_offset:bigint>>"


@dataclass(frozen=True)
class Column:
    """A column. Its comment, with the unit, is written into the table. `is_added_later` columns are added to older tables."""

    name: str
    type: str
    comment: str
    is_checked: bool = True  # False for a type of the user's, such as a payload's
    is_added_later: bool = False

    @property
    def ddl(self) -> str:
        """The column for `CREATE TABLE` and `ADD COLUMNS`."""
        return f"`{self.name}` {self.type} COMMENT {sql_text(self.comment)}"


@dataclass(frozen=True)
class Contract:
    """The columns, grain and properties of a table. Maintenance clusters rows by `clustered_by`, if it has columns."""

    name: str
    grain: str
    columns: tuple[Column, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    clustered_by: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [column.name for column in self.columns]

    def type_of(self, name: str) -> str:
        """Return the Spark type of a column."""
        return next(column.type for column in self.columns if column.name == name)

    def ddl(self) -> str:
        """Return the columns for `CREATE TABLE`.

        >>> Contract("t", "a row", (Column("n", "bigint", "a number"),)).ddl()
        "`n` bigint COMMENT 'a number'"
        """
        return ", ".join(column.ddl for column in self.columns)

    def check(self, schema: "StructType", *, where: str, next_step: str | None = None) -> None:
        """Raise a `ContractError` that names each missing, unexpected or differently typed column. Their order is free."""
        observed = {column.name: column.dataType.simpleString() for column in schema.fields}
        missing = [name for name in self.names if name not in observed]
        unexpected = [name for name in observed if name not in self.names]
        wrong_type = [
            (column.name, observed[column.name], column.type)
            for column in self.columns
            if column.is_checked and column.name in observed and observed[column.name] != column.type
        ]
        if missing or unexpected or wrong_type:
            raise ContractError(where, missing=missing, unexpected=unexpected, wrong_type=wrong_type, next_step=next_step)

    def select(self, rows: "DataFrame") -> "DataFrame":
        """Select the contract's columns in order; raise a `ContractError` if one is missing or of another type."""
        known = rows.select(*[name for name in self.names if name in rows.columns])
        self.check(known.schema, where=f"rows for {self.name}")
        return known


def sql_text(text: str) -> str:
    r"""Quote a text as a SQL literal.

    >>> print(sql_text("it's"))
    'it\'s'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
