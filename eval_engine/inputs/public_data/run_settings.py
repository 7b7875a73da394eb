"""The config of a first run on an imported data set: its tables, frame and rule of positives, and a small panel."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml

from eval_engine.inputs.public_data.destination import Destination
from eval_engine.inputs.public_data.logged_and_random import Frame

LABELS = ("catalogue", "feedback", "heldout", "exposures", "truth")
PANEL: tuple[dict[str, Any], ...] = (
    {"model": "random", "name": "random"},
    {"model": "positive_popularity", "name": "popularity"},
    {"model": "average_rating", "name": "average_rating"},
    {"model": "item_knn", "name": "item_knn"},
    {"model": "mf", "name": "mf"},
    {"model": "mf_ips", "name": "mf_ips"},
)


class Imported(NamedTuple):
    """What an import found, beside its tables."""

    positive: str
    frame: Frame
    remarks: tuple[str, ...]  # what was counted or left out, a sentence each
    split: Mapping[str, Any] | None = None  # how the stage `split` divides the log; None: feedback is there
    item_columns: tuple[str, ...] = ()  # of the catalogue, to slice by
    user_columns: tuple[str, ...] = ()


def run_yaml(name: str, imported: Imported, destination: Destination, seed: int) -> str:
    """The text of run.yaml."""

    def table(which: str) -> dict[str, str]:
        return {"path": destination.path(which), "format": "parquet"}

    inputs = {which: table(which) for which in LABELS if which in destination.n_rows}
    config: dict[str, Any] = {
        "run_id": name,
        "lake": str(destination.folder / "lake"),
        "report": str(destination.folder / "report"),
        "inputs": inputs,
    }
    if imported.split is not None:
        config["split"] = {"log": table("log"), "how": dict(imported.split)}
        for made in ("feedback", "heldout"):
            inputs[made] = {"path": str(destination.folder / "split" / made), "format": "delta"}
    panel = list(PANEL)
    if "random_train" in destination.n_rows:
        panel.append({"model": "mf_autodebias", "name": "mf_autodebias", "loss": {"random": table("random_train")}})
    config |= {
        "positive": imported.positive,
        "frame": imported.frame,
        "train": {
            "seed": seed,
            "output": "ranks",
            "checkpoints": str(destination.folder / "checkpoints"),
            "models": panel,
        },
        "top": 100,
        "evaluate": {"metrics": ["recall@10", "recall@50", "ndcg@10"], "traditional": ["recall@5"]},
    }
    head = (
        "# Written by `plumbline import`, which writes it again when it is run again: copy it before you change it.\n"
    )
    return head + _dumped(config) + _slices(imported, destination)


def _slices(imported: Imported, destination: Destination) -> str:
    """The section of slices as a comment: every slice multiplies the estimates."""
    slices = {
        kind: [{"path": destination.path(name), "format": "parquet", "by": list(columns)}]
        for kind, name, columns in (
            ("items", "catalogue", imported.item_columns),
            ("users", "users", imported.user_columns),
        )
        if columns
    }
    if not slices:
        return ""
    lines = _dumped({"slices": slices}).splitlines()
    return "# Estimates by slice as well: take the signs away, and the columns that you do not need.\n" + "".join(
        f"# {line}\n" for line in lines
    )


def _dumped(content: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(content), sort_keys=False, default_flow_style=None, width=200, allow_unicode=True)
