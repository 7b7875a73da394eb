"""Models by name: each a composition of backbone, loss and sampler, with its paper's defaults and a grid for searches.

    {model: bpr_mf, name: bpr_64, dims: 64}
    ->   {kind: mf, name: bpr_64, biases: false, loss: {kind: bpr}, sampler: {...}, dims: 64}

A key of the config replaces that of the composition, also inside loss and sampler if their kind is the same.
docs/models.md has a row for each model. This module does not import torch.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

DIMS = tuple(range(10, 101, 10))  # [simpson] section 6.2
RATES = (1e-4, 1e-3, 1e-2, 1e-1)  # [ure] appendix A.4: of learning rate
DECAYS = (0.0, 1e-3, 1e-2, 1e-1)  # of the penalty in models/used_rows.py
NOT_SHOWN: dict[str, Any] = {"kind": "uniform_negatives", "per_positive": 4}  # [bqs] section 4.2: n = 4
POINTWISE: dict[str, Any] = {"loss": {"kind": "bce"}, "sampler": NOT_SHOWN}
# A model that learns from logged pairs alone stops on their loss: their places in a list of all items are biased.
ON_LOSS: dict[str, Any] = {"stop_on": "loss", "patience": 3}
RATINGS: dict[str, Any] = {**ON_LOSS, "loss": {"kind": "mse"}, "sampler": {"kind": "observed", "label": "value"}}
BPR: dict[str, Any] = {"kind": "mf", "biases": False, "loss": {"kind": "bpr"}, "sampler": NOT_SHOWN}
PROPENSITY: dict[str, Any] = {"kind": "popularity", "power": 0.25, "floor": 0.1}


# Held-out losses of DR, AutoDebias or hard negatives say little about the quality of the list.
STOPPING: dict[str, Any] = {"stop_on": "ndcg@10", "patience": 10}
GRAPH_DECAYS = (0.0, 1e-4, 1e-3)  # the mean over layers shrinks vectors already
GRAPH: dict[str, Any] = {"learning_rate": 0.02}  # a graph model starts at popularity, and takes some epochs to leave it


class Composition(NamedTuple):
    """A model as an entry of a config, and the grid of a search: values by dotted key, such as sampler.drawn."""

    spec: dict[str, Any]
    paper: str
    grid: dict[str, tuple[Any, ...]]


def _gradient(spec: dict[str, Any], paper: str, **grid: tuple[Any, ...]) -> Composition:
    """A composition whose grid also has learning rate and weight decay."""
    return Composition({**STOPPING, **spec}, paper, {"learning_rate": RATES, "weight_decay": DECAYS, **grid})


REGISTRY: dict[str, Composition] = {
    "random": Composition({"kind": "random"}, "[simpson] BO", {}),
    "global_average": Composition({"kind": "global_average"}, "[simpson] GA", {}),
    "popularity": Composition({"kind": "popularity"}, "[simpson] POP", {}),
    "positive_popularity": Composition({"kind": "positive_popularity"}, "[wtd] PosPop", {}),
    "average_rating": Composition({"kind": "average_rating"}, "[wtd] AvgRating", {}),
    "user_knn": Composition(
        {"kind": "user_knn"}, "[wtd] UB_KNN", {"neighbours": (10, 20, 50, 100), "power": (0.5, 1.0, 2.0)}
    ),
    "item_knn": Composition(
        {"kind": "item_knn"}, "[wtd] IB_KNN", {"neighbours": (10, 20, 50, 100), "power": (0.5, 1.0, 2.0)}
    ),
    "wmf": Composition(
        {"kind": "wmf"},
        "[Hu, Koren, Volinsky 2008]",
        {"dims": DIMS, "confidence": (1.0, 10.0, 40.0), "regularization": (1.0, 10.0, 30.0, 100.0)},
    ),
    "mf": _gradient({"kind": "mf", **POINTWISE}, "[Koren, Bell, Volinsky 2009] eq. 4", dims=DIMS),
    "mf_ratings": _gradient({"kind": "mf", **RATINGS}, "[Koren, Bell, Volinsky 2009] eq. 5", dims=DIMS),
    "bpr_mf": _gradient(BPR, "[Rendle et al. 2009]", dims=DIMS),
    "weighted_bpr_mf": _gradient(
        {**BPR, "sampler": {"kind": "popularity_negatives"}}, "[Gantner et al. 2012]", dims=DIMS
    ),
    "mmmf": _gradient({**BPR, "loss": {"kind": "hinge"}}, "[Weimer, Karatzoglou, Smola 2008]", dims=DIMS),
    "pmf": _gradient({"kind": "mf", "biases": False, **RATINGS}, "[Salakhutdinov, Mnih 2007] eq. 4", dims=DIMS),
    "pmf_nonlinear": _gradient(
        {"kind": "mf", "biases": False, **RATINGS, "loss": {"kind": "mse", "link": "sigmoid"}},
        "[Salakhutdinov, Mnih 2007] section 2",
        dims=DIMS,
    ),
    "svdpp": _gradient({"kind": "svdpp", **RATINGS}, "[Koren 2008] eq. 15", dims=DIMS),
    "nmf": _gradient({"kind": "nmf", **RATINGS}, "[Lee, Seung 2000]", dims=DIMS),
    "gmf": _gradient({"kind": "gmf", **POINTWISE}, "[He et al. 2017] eq. 9", dims=DIMS),
    "mlp": _gradient({"kind": "mlp", **POINTWISE}, "[He et al. 2017] eq. 10", layers=(1, 2, 3)),
    "neumf": _gradient({"kind": "neumf", **POINTWISE}, "[He et al. 2017] eq. 12", dims=DIMS),
    "lightgcn": _gradient(
        {"kind": "lightgcn", "loss": {"kind": "bpr"}, "sampler": NOT_SHOWN},
        "[He et al. 2020]",
        dims=DIMS,
        layers=(1, 2, 3),
        weight_decay=GRAPH_DECAYS,
    ),
    "simgcl": _gradient(
        {"kind": "simgcl", **GRAPH, "loss": {"kind": "bpr"}, "sampler": NOT_SHOWN},
        "[Yu et al. 2022]",
        contrast=(0.05, 0.1, 0.2, 0.5, 1.0),
        weight_decay=GRAPH_DECAYS,
    ),
    "rvae": _gradient(
        {"kind": "rvae", "loss": {"kind": "bpr"}, "sampler": NOT_SHOWN}, "[bqs] eq. 18", kl=(0.1, 0.2, 1.0)
    ),
    "mf_ips": _gradient(
        {"kind": "mf", **ON_LOSS, "loss": {"kind": "bce", "propensity": PROPENSITY}, "sampler": {"kind": "observed"}},
        "[Schnabel et al. 2016] eq. 10",
        dims=DIMS,
    ),
    "mf_dr": _gradient(
        {"kind": "mf", "loss": {"kind": "dr"}, "sampler": {"kind": "all_pairs"}},
        "[Wang et al. 2019] eqs 5, 6",
        dims=DIMS,
    ),
    "mf_negs": _gradient(
        {"kind": "mf", **POINTWISE, "sampler": {"kind": "hard_negatives"}},
        "[ure] section 4.2; [Shi et al. 2023]",
        **{"sampler.drawn": (8, 16, 32)},
    ),
    "lightgcn_negs": _gradient(
        {"kind": "lightgcn", **GRAPH, **POINTWISE, "sampler": {"kind": "hard_negatives"}},
        "[ure] section 4.2; [Shi et al. 2023]",
        **{"sampler.drawn": (8, 16, 32)},
    ),
    "bpr_ips": _gradient(
        {**BPR, "loss": {"kind": "bpr", "propensity": {**PROPENSITY, "power": 0.5, "floor": 0.05}}},
        "[bqs] section 3.6, IPS",
    ),
    "bpr_boratto": _gradient(
        {**BPR, "loss": {"kind": "bpr", "residual_correlation": 0.01}},
        "[Boratto, Fenu, Marras 2021]",
        **{"loss.residual_correlation": (0.001, 0.01, 0.1)},
    ),
    "bpr_pd": _gradient(
        {**BPR, "loss": {"kind": "pd"}},
        "[Zhang et al. 2021] eqs 6, 7",
        **{"loss.gamma": (0.02, 0.06, 0.1, 0.14, 0.18, 0.22)},
    ),
    "bpr_oversampled": _gradient(
        {**BPR, "sampler": {"kind": "oversampled", "strategy": "dynamic"}}, "[bqs] eqs 19 to 22"
    ),
    "bpr_oversampled_evenly": _gradient(
        {**BPR, "sampler": {"kind": "oversampled", "strategy": "uniform"}}, "[bqs] eq. 20"
    ),
    "bpr_jannach": _gradient(
        {**BPR, "sampler": {"kind": "rare_positives"}},
        "[Jannach et al. 2015] section 5",
        **{"sampler.spread": (0.1, 0.25, 0.5)},
    ),
    "bpr_ensemble": Composition(
        {"kind": "ensemble", "base": {**STOPPING, **BPR}}, "[bqs] section 3.6, E", {"delta": (0.05, 0.2, 0.5, 0.75)}
    ),
    "mf_autodebias": _gradient(
        {"kind": "mf", "stop_on": "random_auc", "loss": {"kind": "autodebias"}, "sampler": {"kind": "all_pairs"}},
        "[Chen et al. 2021] eqs 13 to 16; name the small random set in loss.random",
        **{"loss.logged_learning_rate": RATES, "loss.all_learning_rate": RATES},
    ),
}


def composed(model: object) -> object:
    """A config's entry with `model: NAME` replaced by its composition; any other entry unchanged."""
    if not isinstance(model, Mapping) or "model" not in model:
        return model
    name = model["model"]
    if name not in REGISTRY:
        raise ValueError(f"model {name!r} is not in the registry; it has {', '.join(REGISTRY)}")
    return merged({"name": name, **REGISTRY[name].spec}, {key: value for key, value in model.items() if key != "model"})


def merged(spec: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with the changes, key by key; a part of another kind is replaced completely."""
    result = dict(spec)
    for key, value in changes.items():
        old = result.get(key)
        if (
            isinstance(old, Mapping)
            and isinstance(value, Mapping)
            and value.get("kind", old.get("kind")) == old.get("kind")
        ):
            value = merged(old, value)
        result[key] = value
    return result
