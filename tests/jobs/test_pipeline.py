"""The registry of stages, and what is made from it."""

from pathlib import Path

import pytest

from eval_engine.tables import TABLES
from jobs.pipeline import STAGES, module_of, stages_page

ROOT = Path(__file__).parent.parent.parent


def test_the_page_of_the_stages_is_what_the_registry_makes() -> None:
    """`python -m jobs.pipeline > docs/stages.md` makes it again."""
    assert (ROOT / "docs" / "stages.md").read_text() == stages_page()


def test_stages_come_after_those_that_they_rest_on() -> None:
    names = list(STAGES)
    for name, stage in STAGES.items():
        assert all(names.index(other) < names.index(name) for other in stage.after), name


def test_every_table_of_the_lake_is_written_by_a_stage() -> None:
    written = {table for stage in STAGES.values() for table in stage.lake_tables}
    assert {table.name for table in TABLES} - {table.name for table in written} == {"runs"}  # each stage writes its row


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_a_file_with_a_function_run(name: str) -> None:
    assert callable(module_of(name).run)
