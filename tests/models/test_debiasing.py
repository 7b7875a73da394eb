"""Which models of the registry correct for exposure."""

from models.registry import REGISTRY
from models.spec.debiasing import DEBIASED, HARD_NEGATIVES, PLAIN, debiasing
from models.spec.train import MODEL


def test_the_registry_by_group():
    groups = {}
    for name in REGISTRY:
        random = {"loss": {"random": {"path": "random"}}} if name == "mf_autodebias" else {}
        groups.setdefault(debiasing(MODEL.validate_python({"model": name, **random})), set()).add(name)
    assert groups[HARD_NEGATIVES] == {"mf_negs", "lightgcn_negs"}
    assert groups[DEBIASED] == {
        "mf_ips", "mf_dr", "mf_autodebias", "bpr_ips", "bpr_boratto", "bpr_pd",
        "bpr_oversampled", "bpr_oversampled_evenly", "bpr_jannach", "bpr_ensemble",
    }  # fmt: skip
    assert {"mf", "bpr_mf", "popularity", "random", "mf_ratings"} <= groups[PLAIN]
