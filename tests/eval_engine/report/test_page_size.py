"""The page of a run with many models and strata stays small, and says what it leaves out."""

from itertools import combinations
from pathlib import Path

import numpy as np

from eval_engine.metric import Metric
from eval_engine.report.answers import Answers
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import EstimateRow
from eval_engine.report.html import save_html
from eval_engine.report.reversal_row import ReversalRow

N_MODELS, MOST_BYTES = 61, 600_000
STRATA = [(kind, n) for kind in ("equal_width", "equal_count") for n in range(2, 11)]
WHOLE = ("full_macro", "holdout", "open_loop", "ure_macro", "ure_balanced", "snips", "clipped", "snips_user")
STRATIFIED = [f"{name}({kind}={n})" for name in ("stratified", "stratified_balanced") for kind, n in STRATA]


def many_models(strata: list[tuple[str, int]]) -> Answers:
    """Every slice has the order of the models that is the reverse of the whole, and decides it."""
    models = [f"mf_ips(dims={n},decay=0.001)" for n in range(N_MODELS)]
    rows, pairs, flags = [], [], []
    slices = [f"propensity_{kind}_{n}=Q{x}" for kind, n in strata for x in range(1, n + 1)]
    values = np.linspace(0.1, 0.3, N_MODELS)
    for name in (*WHOLE, *STRATIFIED):
        for part in ("all", *(slices if name == "snips" else [])):
            own = values if part == "all" else values[::-1]
            for model, value in zip(models, own.tolist(), strict=True):
                low, high = value - 0.001, value + 0.001
                rows.append(EstimateRow(model, name, "recall", 20, value, 0.0005, low, high, 9000, 0, "", slice=part))
            if name not in ("snips", "ure_balanced"):
                continue
            for a, b in combinations(range(N_MODELS), 2):
                d = float(own[a] - own[b])
                verdict = "a better" if d > 0 else "b better"
                pairs.append(
                    ComparisonRow(
                        name, "recall", 20, models[a], models[b], d, d - 0.001, d + 0.001, 0.95, 1e-12, 1e-12, verdict,
                        power=0.8, slice=part,
                    )
                )  # fmt: skip
    for kind, n in strata:
        names = [f"propensity_{kind}_{n}=Q{x}" for x in range(1, n + 1)]
        for a, b in combinations(range(N_MODELS), 2):
            flags.append(
                ReversalRow(
                    "snips", "recall", 20, f"propensity_{kind}_{n}", "reversed", 1830, 1830, 0, 0, models[a], models[b],
                    -0.1, 1e-12, names, [0.1] * n, [1 / n] * n, 1.0, "pairs", [100] * n,
                )
            )  # fmt: skip
    return Answers(rows, pairs, metrics=(Metric("recall", 20),), reversals=flags)


def test_the_page_of_many_models_and_strata_stays_small(tmp_path: Path) -> None:
    strata = [("equal_width", 2), ("equal_count", 2), ("equal_count", 5)]
    page = save_html(many_models(strata), {}, None, tmp_path / "r.html").read_text()
    assert len(page.encode()) < MOST_BYTES  # all flags, pairs and contradictions would be 7 MB
    assert "41 more models: left out here, shown by <code>SELECT * FROM estimates" in page
    assert "1,711 more pairs: left out here" in page
    assert "5,390 more flags: left out here" in page
    assert "3,640 more contradictions, with smaller differences in the slice: left out here" in page
    assert page.count("<li>") == 100 + 20 * len(strata)
