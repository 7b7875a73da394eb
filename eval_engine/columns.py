"""Columns of the written tables, and their types as values that print as SQL; lake/arrow_schema.py makes Arrow types.

>>> scores = Column("scores", List(FLOAT), "Score of each item.")
>>> Column("top", Struct(Column("items", List(ID), "Item ids."), scores), "The best items.").ddl("STRING")
'top STRUCT<items: ARRAY<STRING>, scores: ARRAY<FLOAT>>'
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Scalar:
    """A type without parts; its name is that of SQL."""

    name: str

    def sql(self, id_type: str) -> str:
        """The type as SQL; id_type, BIGINT or STRING, is that of ids."""
        return id_type if self.name == "ID" else self.name


@dataclass(frozen=True)
class Decimal:
    """An exact number: `precision` decimal digits, `scale` of them behind the point."""

    precision: int
    scale: int

    def sql(self, id_type: str) -> str:
        """The type as SQL."""
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True)
class List:
    """Values of one type in an order."""

    element: "Type"

    def sql(self, id_type: str) -> str:
        """The type as SQL."""
        return f"ARRAY<{self.element.sql(id_type)}>"


@dataclass(frozen=True)
class Map:
    """A value for each of some keys."""

    key: "Type"
    value: "Type"

    def sql(self, id_type: str) -> str:
        """The type as SQL."""
        return f"MAP<{self.key.sql(id_type)}, {self.value.sql(id_type)}>"


@dataclass(frozen=True, init=False)
class Struct:
    """Named fields; each may be NULL."""

    fields: tuple["Column", ...]

    def __init__(self, *fields: "Column") -> None:
        object.__setattr__(self, "fields", fields)

    def sql(self, id_type: str) -> str:
        """The type as SQL."""
        return f"STRUCT<{', '.join(f'{field.name}: {field.type.sql(id_type)}' for field in self.fields)}>"


Type = Scalar | Decimal | List | Map | Struct

STRING = Scalar("STRING")
INT = Scalar("INT")
BIGINT = Scalar("BIGINT")
FLOAT = Scalar("FLOAT")
DOUBLE = Scalar("DOUBLE")
BOOLEAN = Scalar("BOOLEAN")
TIMESTAMP = Scalar("TIMESTAMP")
ID = Scalar("ID")  # of users and items: BIGINT or STRING, the same in every table of a lake


@dataclass(frozen=True)
class Column:
    """A column of a table or a field of a struct; about: a sentence on what it holds, and in what unit."""

    name: str
    type: Type
    about: str
    nullable: bool = True

    def ddl(self, id_type: str) -> str:
        """The column as CREATE TABLE takes it."""
        return f"{self.name} {self.type.sql(id_type)}{'' if self.nullable else ' NOT NULL'}"

    def paths(self, above: str = "") -> Iterator[tuple[str, "Column"]]:
        """The column and the fields inside it, each with its full name: top, top.items, top.scores."""
        path = f"{above}{self.name}"
        yield path, self
        if isinstance(self.type, Struct):
            for field in self.type.fields:
                yield from field.paths(f"{path}.")
