"""The command of the study of designed exposures: table, picture and page, and what it does not have."""

import io

import pytest
import yaml
from rich.console import Console

from eval_engine.errors import ConfigError
from eval_engine.lake.lake import Lake
from eval_engine.tables import DESIGN_STUDY
from jobs import study
from jobs.design_study import simulated
from jobs.pipeline import check_asked, stages_of
from jobs.runner import load, load_any
from jobs.stage import done_stage


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "design.yaml"
    settings = {
        "kind": "design",
        "population": 60,
        "users": 80,
        "draws": 26,  # two blocks
        "base": {"items": 100, "models": 3, "exposures": 6, "k": 5},
        "vary": {"items": [60], "k": [3]},
    }
    content = {"run_id": "x", "lake": str(tmp_path / "lake"), "report": str(tmp_path / "report"), "study": settings}
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_whole_command(config_file, spark, tmp_path):
    config, console = load_any(config_file), Console(record=True, width=120, file=io.StringIO())
    assert stages_of(config) == ("study",)
    study.run(spark, config, console)
    lake, said = Lake(spark, config.lake), console.export_text()
    rows = lake.read(DESIGN_STUDY, "x")
    assert rows.count() == 3 * 14 == rows.select(*DESIGN_STUDY.key).distinct().count()
    assert rows.where(" OR ".join(f"NOT coalesce(({rule}), false)" for rule in DESIGN_STUDY.rules)).isEmpty()
    found = {tuple(row)[1:] for row in rows.collect()}
    assert found == set(simulated(spark, config.study))
    plans = {row["plan"]: row["gain"] for row in lake.rows(DESIGN_STUDY, {"run_id": "x"}) if row["k"] == 5}
    assert set(plans) == {"uniform", "half", "fifth", "pair"}
    assert done_stage(lake, "x", "study")["status"] == "done"
    for words in ("N = 60", "K = 3", "half", "times what the rule says", "Of 26 draws"):
        assert words in " ".join(said.split())
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"x-gains.png", "x-study.html"}
    page = (tmp_path / "report" / "x-study.html").read_text()
    assert page.count("data:image/png;base64,") == 1
    assert "precision, known sizes" in page


def test_such_a_study_has_no_other_stage_and_no_inputs(config_file):
    config = load_any(config_file)
    with pytest.raises(ConfigError, match="simulates all it needs, so there is no stage rank"):
        check_asked(config, "rank")
    content = yaml.safe_load(config_file.read_text())
    config_file.write_text(yaml.safe_dump(content | {"scores": []}))
    with pytest.raises(ConfigError, match=r"scores: Extra inputs are not permitted"):
        load_any(config_file)
    config_file.write_text(yaml.safe_dump(content | {"report": "s3://bucket/report"}))
    with pytest.raises(ConfigError, match="not a folder of this machine"):
        load_any(config_file)
    with pytest.raises(ConfigError, match="kind design has run_id, lake, report and study only"):
        load(config_file)


def test_the_run_id_of_the_command_line_is_used(config_file):
    assert load_any(config_file, "other").run_id == "other"
