"""One embedded Spark for all tests that need one, and a small run on real files that tests can bend."""

import copy
import gc
import os
import shutil
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import settings
from pyspark.sql import SparkSession
from rich.console import Console
from xdist.scheduler import LoadFileScheduling

from tests.compiled_code import remove_stale

USERS, ITEMS, EXPOSED = 40, 30, 6
settings.register_profile("untimed", deadline=None)  # a busy machine, or a first call that compiles, is no failure
settings.load_profile("untimed")

# Two test processes that compile one function for two types at once can leave each other's code in numba's cache, so
# each has its own. This must come before numba is imported.
if process := os.environ.get("PYTEST_XDIST_WORKER"):
    root = Path(__file__).parent.parent
    code = Path(os.environ.setdefault("NUMBA_CACHE_DIR", str(root / ".pytest_cache" / "numba" / process)))
    remove_stale(code, root)


class FromBothEnds(LoadFileScheduling):
    """The first process takes files from the front of the queue, the others from its end."""

    def _assign_work_unit(self, node: Any) -> None:
        if node.gateway.id != "gw0":
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    return FromBothEnds(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In several processes, the files that need Spark come first and the others last, each kind with its longest file
    outermost: one process keeps to one warm Spark, the other one starts none until the rest is done, and both end with
    short files."""
    if not process:
        return
    with_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    size = {item.path: item.path.stat().st_size for item in items}
    items.sort(key=lambda item: (-1 if item.path in with_spark else 1) * size[item.path])


def pytest_collection_finish() -> None:
    """What was imported until now stays: the collector of garbage need not look at it again and again."""
    if process:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PLUMBLINE_MASTER"] = "local[2]"
    from eval_engine.spark.session import QUICK_START, spark_session

    # With a log file, as a command has one, Java starts from the archive of its classes if set-up has made it. Tables
    # of tests are small: with the default, a quarter of the machine, Java would fill all of it before it collects
    # garbage.
    java_options = f"{QUICK_START} -XX:MaxHeapSize=2g"
    session = spark_session("tests", java_options, log=tmp_path_factory.mktemp("spark") / "log")
    # Tables of a few rows: compiling a query takes longer than interpreting it. spark-submit and the demo run compiled.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()


class SmallRun:
    """Tables of a small platform as Arrow, its config as a dict; change either, then write and run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(5)
        users, items = np.arange(USERS) + 100, np.arange(ITEMS) * 3 + 1000
        value = rng.integers(1, 6, (USERS, ITEMS)).astype(float)
        order = rng.permuted(np.tile(np.arange(ITEMS), (USERS, 1)), axis=1)
        self.users, self.items, self.truth_values = users, items, value
        self.said_by_rank = ""
        self.logged, self.exposed = (
            order[:, :5],
            order[:, 5 : 5 + EXPOSED],
        )  # positions; disjoint, as the frame unseen demands
        self.held = order[:, 3 + EXPOSED : 8 + EXPOSED]  # positions; two are exposed too. Not in the run: hold_out
        self.scores = {
            name: rng.integers(-4, 5, (USERS, ITEMS)).astype(np.float32) for name in ("a", "b")
        }  # few values: many ties
        self.tables = {
            "catalogue": pa.table({"item_id": items, "position": np.arange(ITEMS, dtype=np.int32)}),
            "feedback": self.pairs(self.logged),
            "exposures": self.pairs(self.exposed),
            "truth": self.pairs(np.tile(np.arange(ITEMS), (USERS, 1))),
            "scores/a": self.vectors("a"),
            "scores/b": self.vectors("b"),
        }
        paths = {name: {"path": str(folder / "in" / name)} for name in self.tables}
        self.config: dict[str, Any] = {
            "run_id": "small",
            "lake": str(folder / "lake"),
            "report": str(folder / "report"),
            "inputs": {name: paths[name] for name in ("catalogue", "feedback", "exposures", "truth")},
            "scores": [{"model": name} | paths[f"scores/{name}"] for name in ("a", "b")],
            "frame": "unseen",
            "top": 9,
            "evaluate": {"metrics": ["recall@3", "recall@9"], "traditional": ["recall@2"]},
        }

    def hold_out(self) -> None:
        """Gives the run held-out pairs."""
        self.tables["heldout"] = self.pairs(self.held)
        self.config["inputs"]["heldout"] = {"path": str(self.folder / "in" / "heldout")}

    def pairs(self, positions: np.ndarray) -> pa.Table:
        """Labelled pairs of every user at these positions."""
        rows = np.repeat(np.arange(USERS), positions.shape[1])
        flat = positions.ravel()
        return pa.table(
            {"user_id": self.users[rows], "item_id": self.items[flat], "value": self.truth_values[rows, flat]}
        )

    def vectors(self, model: str) -> pa.Table:
        """The model's dense score table."""
        return pa.table(
            {
                "user_id": self.users,
                "scores": pa.array([row.astype("<f4").tobytes() for row in self.scores[model]], pa.binary()),
            }
        )

    def write(self) -> Path:
        """The tables as Parquet, the config as YAML; its path."""
        for name, table in self.tables.items():
            folder = self.folder / "in" / name
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, folder / "part-0.parquet", row_group_size=16)
        path = self.folder / "run.yaml"
        path.write_text(yaml.safe_dump(self.config))
        return path

    def run(self, spark: SparkSession) -> None:
        """Rank and evaluate, as the command line does."""
        from jobs import evaluate, popularity, propensity, rank, test_sets
        from jobs.cli import load

        config, console = load(self.write()), Console(record=True, file=StringIO(), width=500)
        rank.run(spark, config, console)
        self.said_by_rank = console.export_text()
        if config.propensity is not None:
            propensity.run(spark, config, console)
        if config.popularity is not None:
            popularity.run(spark, config, console)
        if config.test_sets is not None:
            test_sets.run(spark, config, console)
        evaluate.run(spark, config, console)

    def ranks(self, spark: SparkSession) -> list[Any]:
        """Check and rank, as the job does before it writes; the rows it would write."""
        from eval_engine.errors import as_operator_error
        from eval_engine.lake.lake import Lake
        from eval_engine.ranking.rank import plans, ranked_rows
        from eval_engine.spark.session import batches_by_bytes
        from jobs import rank
        from jobs.cli import load

        config = load(self.write())
        lake = Lake(spark, config.lake)
        with (
            as_operator_error(),
            batches_by_bytes(spark),
            rank.checked(spark, config, lake, rank.already_ranked(spark, config, lake)) as inputs,
        ):
            return ranked_rows(plans(inputs.found), inputs.found.id_type).collect()

    def rows(self, spark: SparkSession, table: str) -> list[Any]:
        """A written table of the run, in the order of its key."""
        from eval_engine import tables
        from eval_engine.lake.lake import Lake

        contract = getattr(tables, table.upper())
        return Lake(spark, self.config["lake"]).read(contract, self.config["run_id"]).orderBy(*contract.key).collect()


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> SmallRun:
    """A run that is done; for tests that only look at it."""
    run = SmallRun(tmp_path_factory.mktemp("finished"))
    run.config["evaluate"]["user_metrics"] = True
    run.run(spark)
    return run


@pytest.fixture
def own_lake(finished_run: SmallRun, tmp_path: Path) -> SmallRun:
    """The finished run with a copy of its lake, which a test may change; its inputs are those of every such test."""
    run = copy.copy(finished_run)
    shutil.copytree(finished_run.config["lake"], tmp_path / "lake")
    run.config = finished_run.config | {"lake": str(tmp_path / "lake"), "report": str(tmp_path / "report")}
    return run


@pytest.fixture
def small_run(tmp_path: Path) -> SmallRun:
    return SmallRun(tmp_path)


@pytest.fixture
def make_small_run(tmp_path: Path) -> Callable[[str], SmallRun]:
    return lambda name: SmallRun(tmp_path / name)
