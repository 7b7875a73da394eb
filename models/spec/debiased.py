"""Which models of the registry are a debiased form of which: the pairs that balanced quality scores are of."""

from collections.abc import Iterable

BASELINES = {
    "mf_ips": "mf",
    "mf_dr": "mf",
    "mf_negs": "mf",
    "mf_autodebias": "mf",
    "lightgcn_negs": "lightgcn",
    "bpr_ips": "bpr_mf",
    "bpr_boratto": "bpr_mf",
    "bpr_pd": "bpr_mf",
    "bpr_oversampled": "bpr_mf",
    "bpr_oversampled_evenly": "bpr_mf",
    "bpr_jannach": "bpr_mf",
    "bpr_ensemble": "bpr_mf",
}
"""Baseline of each debiased model."""
TECHNIQUES = ("ips", "boratto", "pd", "oversampled", "oversampled_evenly", "jannach", "ensemble")  # [bqs] 4.2


def debiased_pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of baseline and debiased model among some names: those of the registry, and NAME with NAME_TECHNIQUE.

    >>> debiased_pairs(["bpr_mf", "bpr_ips", "simgcl", "simgcl_pd", "mf_ips"])
    [('bpr_mf', 'bpr_ips'), ('simgcl', 'simgcl_pd')]
    """
    known = sorted(set(names))
    found = {(BASELINES[name], name) for name in known if BASELINES.get(name) in known}
    found |= {(base, f"{base}_{one}") for base in known for one in TECHNIQUES if f"{base}_{one}" in known}
    return sorted(found)
