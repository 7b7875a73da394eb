"""The contracts of the written tables, and the page that is made from them."""

from pathlib import Path

import pytest

from eval_engine.columns import ID, INT, STRING, Column, Decimal, List, Map, Struct
from eval_engine.tables import TABLES, Table, as_markdown

ROOT = Path(__file__).parents[2]


def test_the_page_is_that_of_the_contracts() -> None:
    assert (ROOT / "docs" / "tables.md").read_text() == as_markdown(), "python -m eval_engine.tables > docs/tables.md"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_contract_holds_together(table: Table) -> None:
    assert table.names[0] == "run_id" == table.partitions[0]
    assert len(set(table.fields)) == len(table.fields)
    assert set(table.key) | set(table.partitions) <= set(table.names)
    assert not any(column.nullable for column in table.columns if column.name in table.partitions)
    for column in table.columns:
        for path, inside in column.paths():
            assert inside.about.endswith("."), path
            assert inside is column or inside.nullable, path  # Arrow and SQL forms take fields of structs as nullable
            assert "|" not in inside.about, path  # it stands in a cell of a Markdown table


def test_columns_as_sql() -> None:
    inside = Struct(Column("items", List(ID), "."), Column("n", INT, "."))
    table = Table(
        "t",
        "",
        (
            Column("run_id", STRING, ".", nullable=False),
            Column("user_id", ID, ".", nullable=False),
            Column("top", inside, "."),
            Column("a", Decimal(38, 12), "."),
            Column("wins", Map(STRING, List(inside)), "."),
        ),
        ("run_id",),
    )
    struct = "STRUCT<items: ARRAY<STRING>, n: INT>"
    assert table.ddl("STRING") == (
        f"run_id STRING NOT NULL, user_id STRING NOT NULL, top {struct}, a DECIMAL(38, 12), "
        f"wins MAP<STRING, ARRAY<{struct}>>"
    )
    assert table.row_ddl(without=("run_id", "top", "wins")) == "user_id BIGINT, a DECIMAL(38, 12)"
    assert table.fields == ("run_id", "user_id", "top", "top.items", "top.n", "a", "wins")
