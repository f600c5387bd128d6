"""Find the new fields of a struct column, for `ALTER TABLE ... ADD COLUMNS`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, MapType, StructType

from lakehouse.settings.payload_schema import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def added_fields(there: DataType, wanted: DataType, path: str) -> list[str] | None:
    """Return the fields to add, with type and place, in the order to add them; None if the types also differ in other ways.

    `wanted` has the fields of `there` in the same order, and others between and after them. `path` is the quoted column.

    >>> from pyspark.sql.types import DateType, IntegerType
    >>> old = StructType().add("a", IntegerType()).add("l", ArrayType(StructType().add("b", IntegerType())))
    >>> items = StructType().add("b", IntegerType()).add("c", DateType())
    >>> added_fields(old, StructType().add("n", DateType()).add("a", IntegerType()).add("l", ArrayType(items)), "payload")
    ['payload.`n` date FIRST', 'payload.`l`.element.`c` date AFTER `b`']
    >>> added_fields(old, StructType().add("a", IntegerType()), "payload") is None
    True
    """
    if isinstance(there, StructType) and isinstance(wanted, StructType):
        return _of_struct(there, wanted, path)
    if isinstance(there, ArrayType) and isinstance(wanted, ArrayType):
        return added_fields(there.elementType, wanted.elementType, f"{path}.element")
    if isinstance(there, MapType) and isinstance(wanted, MapType) and there.keyType == wanted.keyType:
        return added_fields(there.valueType, wanted.valueType, f"{path}.value")
    return [] if there.simpleString() == wanted.simpleString() else None  # `simpleString` ignores nullability


def holds(kind: DataType, wanted: type[DataType]) -> bool:
    """Whether a type, or a type nested in it, is of a class.

    >>> from pyspark.sql.types import DateType, IntegerType
    >>> kind = ArrayType(StructType().add("a", MapType(IntegerType(), DateType())))
    >>> holds(kind, DateType), holds(kind, StructType), holds(DateType(), IntegerType)
    (True, True, False)
    """
    if isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    else:
        inner = [kind.elementType] if isinstance(kind, ArrayType) else []
    return isinstance(kind, wanted) or any(holds(each, wanted) for each in inner)


def _of_struct(there: StructType, wanted: StructType, path: str) -> list[str] | None:
    known = {field.name: field.dataType for field in there.fields}
    if list(known) != [field.name for field in wanted.fields if field.name in known]:
        return None
    found: list[str] = []
    place = "FIRST"
    for field in wanted.fields:
        if field.name in known:
            inner = added_fields(known[field.name], field.dataType, f"{path}.{quoted(field.name)}")
            if inner is None:
                return None
            found += inner
        else:
            found.append(f"{path}.{quoted(field.name)} {_sql(field.dataType)} {place}")
        place = f"AFTER {quoted(field.name)}"
    return found


def _sql(kind: DataType) -> str:
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(field.name)}: {_sql(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{_sql(kind.keyType)}, {_sql(kind.valueType)}>"
    return kind.simpleString()
