"""Trains epochs of RecBole's BPR and LightGCN in RecBole's environment (.venv-recbole); prints their seconds as JSON.

    .venv-recbole/bin/python benchmarks/recbole_epoch.py --model LightGCN --data FOLDER \\
        --threads 2 --batch 2048 --dims 64 --epochs 4 --steps 40

FOLDER/pairs/pairs.inter has the interactions. An epoch with more batches than --steps ends there, and its seconds are
scaled up. RecBole's own loader, sampler, trainer and Adam are used, with the progress bar off, without evaluation, and
with all pairs in training.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any


class FirstBatches:
    """A loader that ends after some batches."""

    def __init__(self, loader: Any, steps: int) -> None:
        self.loader, self.steps = loader, steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self.loader), self.steps)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    for name in ("threads", "batch", "dims", "epochs", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    import numpy as np

    for name, kind in (
        ("bool", bool),
        ("float", float),
        ("int", int),
        ("complex", complex),
        ("object", object),
        ("str", str),
        ("long", int),
    ):
        if name not in np.__dict__:  # RecBole 1.2.1 was written for numpy 1
            setattr(np, name, kind)
    for name, new in (("float_", np.float64), ("complex_", np.complex128), ("unicode_", np.str_)):
        if name not in np.__dict__:
            setattr(np, name, new)
    import scipy.sparse
    import torch

    scipy.sparse.dok_matrix._update = lambda matrix, entries: matrix._dict.update(entries)  # as in older scipy
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    torch.set_num_threads(given.threads)
    settings = {
        "data_path": given.data,
        "USER_ID_FIELD": "user_id",
        "ITEM_ID_FIELD": "item_id",
        "load_col": {"inter": ["user_id", "item_id"]},
        "embedding_size": given.dims,
        "n_layers": 3,
        "train_batch_size": given.batch,
        "train_neg_sample_args": {
            "distribution": "uniform",
            "sample_num": 1,
            "alpha": 1.0,
            "dynamic": False,
            "candidate_num": 0,
        },
        "eval_args": {"split": {"RS": [1, 0, 0]}, "order": "RO", "group_by": "user", "mode": "full"},
        "use_gpu": False,
        "show_progress": False,
        "state": "ERROR",
        "worker": 0,
        "checkpoint_dir": given.data,
    }
    config = Config(model=given.model, dataset="pairs", config_dict=settings, config_file_list=[])
    init_seed(1, True)
    dataset = create_dataset(config)
    train_data, *_ = data_preparation(config, dataset)
    model = get_model(config["model"])(config, train_data.dataset)
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    n_steps = len(train_data)
    loader = train_data if given.steps >= n_steps else FirstBatches(train_data, given.steps)
    seconds, losses = [], []
    for epoch in range(given.epochs):
        start = time.perf_counter()
        losses.append(float(trainer._train_epoch(loader, epoch, show_progress=False)))
        seconds.append((time.perf_counter() - start) * n_steps / min(given.steps, n_steps))
    print(json.dumps({"seconds": seconds, "losses": losses, "pairs": int(dataset.inter_num)}))


if __name__ == "__main__":
    main()
