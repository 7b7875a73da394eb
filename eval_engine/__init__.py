"""Plumbline: which recommendation model is really better, from logged and randomly exposed feedback.

The names below need numpy only, no Spark: scores in memory in, an estimate with its interval out. eval_engine/estimators/in_memory.py
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eval_engine.estimators.in_memory import (
        Estimate,
        clipped_auc,
        clipped_dcg,
        clipped_ndcg,
        clipped_rbp,
        clipped_recall,
        compare,
        evaluate,
        full_auc,
        full_dcg,
        full_hit_rate,
        full_map,
        full_mrr,
        full_ndcg,
        full_ndcg_mean,
        full_precision,
        full_r_precision,
        full_rbp,
        full_recall,
        full_recall_micro,
        holdout_auc,
        holdout_dcg,
        holdout_hit_rate,
        holdout_map,
        holdout_mrr,
        holdout_ndcg,
        holdout_precision,
        holdout_r_precision,
        holdout_rbp,
        holdout_recall,
        ips_dcg,
        ips_rbp,
        ips_recall,
        snips_auc,
        snips_auc_user,
        snips_dcg,
        snips_dcg_user,
        snips_ndcg,
        snips_ndcg_user,
        snips_rbp,
        snips_rbp_user,
        snips_recall,
        snips_recall_user,
        stratified,
        traditional_auc,
        traditional_dcg,
        traditional_hit_rate,
        traditional_map,
        traditional_mrr,
        traditional_ndcg,
        traditional_precision,
        traditional_r_precision,
        traditional_rbp,
        traditional_recall,
        ure_auc,
        ure_dcg,
        ure_hit_rate,
        ure_map,
        ure_ndcg,
        ure_precision,
        ure_rbp,
        ure_recall,
        ure_recall_balanced,
        ure_recall_micro,
    )
    from eval_engine.exposure_design.design import ExposurePlan, design_exposures
    from eval_engine.kernels.rank_facts import RankFacts, rank_facts
    from eval_engine.propensity.power_law import PowerLaw, power_law
    from eval_engine.statistics.comparison import Comparison
    from eval_engine.statistics.simpson import simpson_of_counts
    from eval_engine.statistics.steiger import steiger
    from eval_engine.test_sets.cap import cap_test_set
    from eval_engine.test_sets.draw import draw_test_set
    from eval_engine.test_sets.weights import TestSetWeights, test_set_weights

__all__ = [
    "Comparison",
    "Estimate",
    "ExposurePlan",
    "PowerLaw",
    "RankFacts",
    "TestSetWeights",
    "cap_test_set",
    "clipped_auc",
    "clipped_dcg",
    "clipped_ndcg",
    "clipped_rbp",
    "clipped_recall",
    "compare",
    "design_exposures",
    "draw_test_set",
    "evaluate",
    "full_auc",
    "full_dcg",
    "full_hit_rate",
    "full_map",
    "full_mrr",
    "full_ndcg",
    "full_ndcg_mean",
    "full_precision",
    "full_r_precision",
    "full_rbp",
    "full_recall",
    "full_recall_micro",
    "holdout_auc",
    "holdout_dcg",
    "holdout_hit_rate",
    "holdout_map",
    "holdout_mrr",
    "holdout_ndcg",
    "holdout_precision",
    "holdout_r_precision",
    "holdout_rbp",
    "holdout_recall",
    "ips_dcg",
    "ips_rbp",
    "ips_recall",
    "power_law",
    "rank_facts",
    "simpson_of_counts",
    "snips_auc",
    "snips_auc_user",
    "snips_dcg",
    "snips_dcg_user",
    "snips_ndcg",
    "snips_ndcg_user",
    "snips_rbp",
    "snips_rbp_user",
    "snips_recall",
    "snips_recall_user",
    "steiger",
    "stratified",
    "test_set_weights",
    "traditional_auc",
    "traditional_dcg",
    "traditional_hit_rate",
    "traditional_map",
    "traditional_mrr",
    "traditional_ndcg",
    "traditional_precision",
    "traditional_r_precision",
    "traditional_rbp",
    "traditional_recall",
    "ure_auc",
    "ure_dcg",
    "ure_hit_rate",
    "ure_map",
    "ure_ndcg",
    "ure_precision",
    "ure_rbp",
    "ure_recall",
    "ure_recall_balanced",
    "ure_recall_micro",
]

HOME = {
    "Comparison": "eval_engine.statistics.comparison",
    "ExposurePlan": "eval_engine.exposure_design.design",
    "PowerLaw": "eval_engine.propensity.power_law",
    "RankFacts": "eval_engine.kernels.rank_facts",
    "TestSetWeights": "eval_engine.test_sets.weights",
    "cap_test_set": "eval_engine.test_sets.cap",
    "design_exposures": "eval_engine.exposure_design.design",
    "draw_test_set": "eval_engine.test_sets.draw",
    "power_law": "eval_engine.propensity.power_law",
    "rank_facts": "eval_engine.kernels.rank_facts",
    "simpson_of_counts": "eval_engine.statistics.simpson",
    "steiger": "eval_engine.statistics.steiger",
    "test_set_weights": "eval_engine.test_sets.weights",
}


def __getattr__(name: str) -> Any:
    """Imported when first asked for: `import eval_engine.errors` need not wait for numba and scipy."""
    if name in __all__:
        return getattr(import_module(HOME.get(name, "eval_engine.estimators.in_memory")), name)
    raise AttributeError(f"module eval_engine has no {name}")


def __dir__() -> list[str]:
    """The names of the numpy API, though none is imported yet."""
    return sorted(__all__)
