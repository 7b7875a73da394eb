"""Plumbline: which recommendation model is really better, from logged and randomly exposed feedback.

The names below need numpy only, no Spark: scores in memory in, an estimate with its interval out.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval_engine.estimators.in_memory import (
        full_auc,
        full_dcg,
        full_map,
        full_ndcg,
        full_ndcg_mean,
        full_precision,
        full_recall,
        full_recall_micro,
        traditional_recall,
        ure_auc,
        ure_dcg,
        ure_map,
        ure_ndcg,
        ure_precision,
        ure_recall,
        ure_recall_micro,
    )
    from eval_engine.kernels.rank_facts import RankFacts, rank_facts
    from eval_engine.statistics.ratio import Estimate

__all__ = [
    "Estimate",
    "RankFacts",
    "full_auc",
    "full_dcg",
    "full_map",
    "full_ndcg",
    "full_ndcg_mean",
    "full_precision",
    "full_recall",
    "full_recall_micro",
    "rank_facts",
    "traditional_recall",
    "ure_auc",
    "ure_dcg",
    "ure_map",
    "ure_ndcg",
    "ure_precision",
    "ure_recall",
    "ure_recall_micro",
]

HOME = {
    "Estimate": "eval_engine.statistics.ratio",
    "RankFacts": "eval_engine.kernels.rank_facts",
    "rank_facts": "eval_engine.kernels.rank_facts",
}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: `import eval_engine.errors` need not wait for numba and scipy."""
    if name in __all__:
        return getattr(import_module(HOME.get(name, "eval_engine.estimators.in_memory")), name)
    raise AttributeError(f"module eval_engine has no {name}")
