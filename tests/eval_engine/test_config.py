"""A config is typed: what it does not know, it refuses, by file and key."""

from pathlib import Path

import pytest
import yaml

from eval_engine.config import Csv, Input, check_run_id, read_yaml
from eval_engine.errors import ConfigError
from eval_engine.metric import Metric
from jobs.cli import load

ROOT = Path(__file__).parent.parent.parent


def test_the_configs_of_the_project_load() -> None:
    for path in sorted((ROOT / "conf").glob("*.yaml")):
        config = load(path)
        assert config.evaluate.metrics
        assert config.score_tables() or config.fused_models()


def test_the_run_id_of_the_command_line_wins() -> None:
    assert load(ROOT / "conf" / "demo.yaml", "2026-11-15").run_id == "2026-11-15"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"metrcs": 1}, "metrcs: Extra inputs are not permitted"),
        ({"evaluate": {"metrics": ["recal@10"]}}, "unknown metric 'recal@10'"),
        ({"evaluate": {"metrics": ["recall@0"]}}, "K >= 1"),
        ({"evaluate": {"metrics": []}}, "evaluate.metrics"),
        ({"positive": "values above 3"}, "write it like `value > 3`"),
        ({"run_id": "a/b"}, "run_id 'a/b' is not usable"),
        ({"run_id": "it's"}, "is not usable"),
        ({"run_id": ""}, "is not usable"),
        ({"frame": "everything"}, "frame"),
        ({"on_bad_rows": "ignore"}, "on_bad_rows"),
        ({"top": 5}, "shorter than the largest cutoff"),
        ({"scores": []}, "at least one score table"),
        (
            {"scores": [{"model": "a", "path": "x/a"}, {"model": "a", "path": "x/b"}]},
            "model a has two score tables, x/a and x/b. Give one of the models another name",
        ),
        ({"scores": [{"path": "x/a"}, {"path": "x/a"}]}, "x/a is listed twice"),
        (
            {
                "scores": [{"model": "r", "path": "x/a"}],
                "train": {"scores": "trained", "models": [{"kind": "random", "name": "r"}]},
            },
            "model r has a score table here, x/a, and is trained to trained/r",
        ),
        ({"inputs": {"catalogue": {"path": "x"}, "exposures": {"path": "x"}}}, "inputs.feedback is needed"),
    ],
)
def test_a_bad_value_is_named(small_run, change, told) -> None:  # type: ignore[no-untyped-def]
    small_run.config |= change
    with pytest.raises(ConfigError, match=r"run\.yaml") as error:
        load(small_run.write())
    assert told in str(error.value)


def test_files_that_are_no_config(tmp_path: Path) -> None:
    for content, told in (
        ("a: [", "not valid YAML"),
        ("- 1", "a mapping of keys is expected"),
        ("", "a mapping of keys is expected"),
    ):
        (tmp_path / "bad.yaml").write_text(content)
        with pytest.raises(ConfigError, match=told):
            load(tmp_path / "bad.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "absent.yaml")


@pytest.mark.parametrize("run_id", ["a", "2026-11-15", "A.b_c-1", "9" * 100, "manual__2026-11-17T00:00:00+00:00"])
def test_usable_run_ids(run_id: str) -> None:
    assert check_run_id(run_id) == run_id


@pytest.mark.parametrize("run_id", ["../x", "a b", "a'b", 'a"b', "-a", ".a", "a\n", "9" * 101, "ä"])
def test_run_ids_that_could_break_a_path_or_a_query(run_id: str) -> None:
    with pytest.raises(ValueError, match="not usable"):
        check_run_id(run_id)


def test_a_metric_prints_as_it_parses() -> None:
    assert str(Metric.parse("recall@10")) == "recall@10"
    assert len({Metric.parse("recall@10"), Metric("recall", 10)}) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delimiter": "\\t"}, 'csv.delimiter: one ASCII character .* a tab is written "\\\\t", in double quotes'),
        ({"quote": ""}, "csv.quote: one ASCII character"),
        ({"escape": '"'}, "csv: delimiter, quote and escape must differ.*doubled quotes need no escape"),
        ({"header": False}, r"csv.header: of files without a header line, list .* header: \[uid, iid, rating\]"),
        ({"seperator": ";"}, "csv.seperator: Extra inputs are not permitted"),
    ],
)
def test_csv_options_that_cannot_be(tmp_path: Path, given: dict[str, object], message: str) -> None:
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump({"path": "x.csv", "csv": given}))
    with pytest.raises(ConfigError, match=message):
        read_yaml(path, Input)


def test_csv_options_as_yaml_has_them(tmp_path: Path) -> None:
    path = tmp_path / "input.yaml"
    path.write_text('{path: x, csv: {delimiter: "\\t", quote: null, escape: "\\\\", header: [uid, iid]}}')
    assert read_yaml(path, Input).csv == Csv(delimiter="\t", quote=None, escape="\\", header=("uid", "iid"))
    path.write_text("{path: x, format: parquet, csv: {}}")
    with pytest.raises(ConfigError, match="csv tells how a CSV table is written, but format is parquet"):
        read_yaml(path, Input)


def test_a_trained_table_may_be_listed_where_training_puts_it(small_run) -> None:  # type: ignore[no-untyped-def]
    small_run.config["scores"] = [{"model": "r", "path": "trained/r", "format": "parquet"}]
    small_run.config["train"] = {"scores": "trained/", "models": [{"kind": "random", "name": "r"}]}
    assert [table.path for table in load(small_run.write()).score_tables()] == ["trained/r"]
