"""From ranks to estimates and comparisons, without Spark: the same numbers as loops over users, whatever the batches; NULL with a reason, never 0, never a crash."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from eval_engine.estimators.labelled import Labelled
from eval_engine.estimators.registry import formula
from eval_engine.estimators.user_batch import LabelSet, UserBatch
from eval_engine.evaluation.bucket_statistics import statistics_rows
from eval_engine.evaluation.result_groups import InferenceSettings
from eval_engine.evaluation.results import results_of
from eval_engine.evaluation.spec import EvaluationSpec, Slicing
from eval_engine.evaluation.statistics_plan import FACTS, _flat, _summed, rank_facts_of
from eval_engine.kernels.rank_facts import rank_facts
from eval_engine.kernels.xxhash64 import xxhash64
from eval_engine.metric import Metric
from eval_engine.positive import Positive
from eval_engine.storage.keyed_table import KeyedTable

METRICS = tuple(
    map(
        Metric.parse,
        ("recall@1", "recall@3", "precision@3", "dcg@3", "ndcg@3", "map@3", "auc", "hit_rate@1", "hit_rate@3"),
    )
)
QUESTION = EvaluationSpec(
    METRICS, (Metric("recall", 2), Metric("ndcg", 2)), Positive(">", 3.0), "expected", ("random", "truth")
)
ASKING = InferenceSettings(0.95, 0.01, 0.8, 200, 0)
N_ITEMS = 12


def struct(facts, items, probabilities=None):
    """Labels of one source as the ranks table holds them."""
    offsets = pa.array(facts.offsets, pa.int32())
    lists = {
        "items": (
            np.concatenate([np.asarray(i, np.int64) for i in items]) if len(items) else np.empty(0, np.int64),
            pa.int64(),
        ),
        "values": (facts.value, pa.float64()),
        "scores": (facts.score, pa.float32()),
        "above": (facts.above, pa.int32()),
        "tied": (facts.tied, pa.int32()),
    }
    arrays = [pa.ListArray.from_arrays(offsets, pa.array(values, kind)) for values, kind in lists.values()]
    flat = (
        None
        if probabilities is None
        else pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(probabilities), pa.float64()))
    )
    arrays.append(pa.nulls(len(items), pa.list_(pa.float64())) if flat is None else flat)
    return pa.StructArray.from_arrays(arrays, [*lists, "probabilities"])


def ranks(model, scores, random_items, values, users, probabilities=None):
    """Rows of the ranks table of one model; values (users, items): what every user thinks."""
    everything = [list(range(scores.shape[1]))] * len(users)
    random = rank_facts(scores, random_items, [values[u, i] for u, i in enumerate(random_items)])
    truth = rank_facts(scores, everything, list(values))
    return pa.RecordBatch.from_pydict(
        {
            "model": pa.array([model] * len(users)),
            "user_id": pa.array(users, pa.int64()),
            "candidates": pa.array(random.candidates, pa.int32()),
            "scored": pa.array(random.candidates, pa.int32()),
            "random": struct(random, random_items, probabilities),
            "truth": struct(truth, everything),
        }
    )


def made(seed=0, n_users=300, e=5, models=("a", "b", "c"), probabilities=False):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 6, (n_users, N_ITEMS)).astype(float)
    items = [np.sort(rng.permutation(N_ITEMS)[: rng.integers(0, e + 1)]) for _ in range(n_users)]
    chances = [rng.uniform(0.2, 1.0, len(i)) for i in items] if probabilities else None
    shared = rng.normal(0, 1, values.shape)  # errors that all models make: what pairing takes out
    found = {}
    for n, model in enumerate(models):
        scores = np.round(values + shared + rng.normal(0, 0.4 + 1.5 * n, values.shape)).astype(
            np.float32
        )  # whole numbers: ties
        found[model] = ranks(model, scores, items, values, np.arange(n_users) * 7, chances)
    return found


def statistics(batches, question=QUESTION):
    """The statistics of these batches, as two tasks and one adder make them."""
    batches = list(batches)
    half = len(batches) // 2
    packed = [
        row
        for task in (batches[:half], batches[half:])
        for batch in _summed(question)(_flat(rows, question) for rows in task)
        for row in zip(*batch.to_pydict().values(), strict=True)
    ]
    return pa.Table.from_batches([statistics_rows(sorted(packed, key=lambda row: row[0]), question)])


def results(table):
    """Estimates and comparisons as dictionaries, by (model, estimator, metric, k) and (estimator, metric, k, a, b)."""
    one, other, *_ = results_of(table, ASKING)
    keys = [("model", "estimator", "metric", "k"), ("estimator", "metric", "k", "model_a", "model_b")]
    estimates, comparisons = (
        {tuple(row[name] for name in key): row for row in rows} for key, rows in zip(keys, (one, other), strict=True)
    )
    return estimates, comparisons


def facts_of(batch, source):
    return rank_facts_of(
        {name: batch.column(source).field(name) for name in FACTS}, batch.column("candidates"), batch.column("scored")
    )


def as_rows(table):
    return sorted(map(str, table.to_pylist()))


@pytest.fixture(scope="module")
def example():
    batches = made()
    table = statistics(batches.values())
    return batches, table, *results(table)


def test_batches_and_their_order_do_not_matter(example):
    batches, table, _, _ = example
    pieces = [batch.slice(start, 37) for batch in batches.values() for start in range(0, batch.num_rows, 37)]
    np.random.default_rng(1).shuffle(pieces)
    assert as_rows(statistics(pieces)) == as_rows(table)
    mixed = pa.concat_batches(pieces)
    assert as_rows(statistics([mixed])) == as_rows(table)


def test_estimates_are_what_users_give(example):
    batches, _, estimates, _ = example
    for model, batch in batches.items():
        facts = {name: facts_of(batch, name) for name in ("random", "truth")}
        sets = {name: LabelSet(one, QUESTION.positive.of(one.value)) for name, one in facts.items()}
        for one, metric in QUESTION.asked():
            if one.estimator.combine is not None:
                continue
            found = estimates[model, one.estimator.name, metric.name, metric.k]
            users = UserBatch(sets)

            def terms(ties, after=None, one=one, metric=metric, users=users):
                view = one.estimator.view(users)
                view = view if after is None else view.broken(after)
                return one.of(users, view, slice(None), metric.k, ties, **metric.parameters)

            a, b = terms("expected")
            used = b > 0
            assert found["n_users"] == used.sum()
            assert found["n_left_out"] == (~used).sum()
            assert found["left_out"] == one.left_out
            if one.metric == "hit_rate" and metric.k > 1 and one.estimator.sampled:
                assert found["value"] is None
                assert "not exposed" in found["reason"]
                continue
            value = a[used].sum() / b[used].sum()
            assert found["value"] == pytest.approx(value, rel=1e-9)
            n = used.sum()
            error = math.sqrt(n / (n - 1) * ((a - value * b)[used] ** 2).sum()) / b[used].sum()
            assert found["standard_error"] == pytest.approx(error, rel=1e-6)
            low, high = (
                terms(*ties).numerator[used].sum() / b[used].sum() for ties in (("strict", True), ("optimistic", False))
            )
            assert found["ties_low"] == pytest.approx(low, rel=1e-9)
            assert found["ties_high"] == pytest.approx(high, rel=1e-9)
            assert low <= value * (1 + 1e-12)
            assert value <= high * (1 + 1e-12)


def test_wins_are_what_users_give(example):
    batches, _, _, comparisons = example
    per_user = {}
    for model, batch in batches.items():
        facts = facts_of(batch, "random")
        labelled = Labelled(facts, QUESTION.positive.of(facts.value))
        for metric, name in (("recall", "ure_macro"), ("ndcg", "ure_mean"), ("map", "ure_macro"), ("auc", "ure_macro")):
            a, b = formula(name, metric).terms(labelled, 3 if metric != "auc" else 0, "expected")
            per_user[model, metric] = np.where(b > 0, a, np.nan).astype(np.float32), labelled.n_positive > 0
    for metric, name in (("recall", "ure_macro"), ("map", "ure_macro"), ("auc", "ure_macro")):
        for first, second in combinations(sorted(batches), 2):
            found = comparisons[name, metric, 3 if metric != "auc" else 0, first, second]
            (x, some), (y, _) = per_user[first, metric], per_user[second, metric]
            assert found["wins"] == (x[some] > y[some]).sum()
            assert found["losses"] == (x[some] < y[some]).sum()
            assert found["ties"] == (x[some] == y[some]).sum()


def test_comparisons_are_paired(example):
    _, _, estimates, comparisons = example
    found = comparisons["ure_macro", "recall", 3, "a", "c"]
    own = [estimates[model, "ure_macro", "recall", 3] for model in "ac"]
    assert found["difference"] == pytest.approx(own[0]["value"] - own[1]["value"])
    assert found["standard_error"] < math.hypot(own[0]["standard_error"], own[1]["standard_error"])
    assert found["p"] <= found["p_fdr"] <= found["p_holm"]
    assert found["verdict"] == "a better"
    best = [estimates[model, "ure_macro", "recall", 3]["chance_best"] for model in "abc"]
    assert sum(best) == pytest.approx(1)
    assert best[0] == max(best)


def test_runs_merge(example):
    """The statistics of two days, taken together, are those of all their users."""
    batches, _, estimates, comparisons = example
    halves = [statistics(batch.slice(*part) for batch in batches.values()) for part in ((0, 140), (140, 160))]
    merged = results(pa.concat_tables(halves))
    for key, row in estimates.items():
        for name in ("value", "standard_error", "low", "high", "n_users"):
            assert (
                merged[0][key][name] == pytest.approx(row[name], rel=1e-9, nan_ok=True)
                if row[name] is not None
                else merged[0][key][name] is None
            )
    for key, row in comparisons.items():
        assert merged[1][key]["wins"] == row["wins"]
        assert merged[1][key]["ties"] == row["ties"]


def test_one_model_has_no_comparison():
    _, comparisons = results(statistics(made(models=("alone",)).values()))
    assert comparisons == {}


def test_uneven_probabilities():
    batches = made(probabilities=True)
    estimates, _ = results(statistics(batches.values()))
    row = estimates["a", "ure_balanced", "recall", 3]
    assert row["value"] is None
    assert "uneven" in row["reason"]
    facts = facts_of(batches["a"], "random")
    expected = []
    for u in range(facts.n_users):
        pairs = range(facts.offsets[u], facts.offsets[u + 1])
        if len(pairs):
            expected.append(
                sum(
                    np.clip((3 - facts.above[p]) / (facts.tied[p] + 1), 0, 1) / facts.probability[p]
                    for p in pairs
                    if facts.value[p] > 3
                )
                / 3
            )
    assert estimates["a", "ure_mean", "precision", 3]["value"] == pytest.approx(np.mean(expected))


def bad(values, items, scores=None):
    n = len(items)
    scores = np.tile(np.arange(values.shape[1], dtype=np.float32), (n, 1)) if scores is None else scores
    batches = [ranks(model, scores * sign, items, values, np.arange(n)) for model, sign in (("a", 1), ("b", -1))]
    return results(statistics(batches))


def test_no_positives_at_all():
    estimates, comparisons = bad(np.ones((20, 6)), [[0, 1]] * 20)
    for (model, name, metric, _), row in estimates.items():
        if metric in ("recall", "auc", "map") or (name, metric) == ("full_macro", "ndcg"):
            assert row["value"] is None, (model, name, metric)
            assert row["reason"]
        elif row["value"] is not None:
            assert row["value"] == 0  # of precision, DCG and nDCG over all users 0 is the truth
    assert {row["verdict"] for row in comparisons.values()} <= {"not decided", "equivalent"}


def test_one_user():
    estimates, comparisons = bad(np.full((1, 6), 5.0), [[0, 1, 5]])
    row = estimates["a", "ure_macro", "recall", 3]
    assert row["value"] is not None
    assert row["standard_error"] is None
    assert row["reason"] == "one user has no standard error"
    assert all(row["p"] is None for row in comparisons.values())


def test_one_exposure_each():
    rng = np.random.default_rng(0)
    estimates, _ = bad(rng.integers(1, 6, (80, 6)).astype(float), [[int(i)] for i in rng.integers(0, 6, 80)])
    assert estimates["a", "ure_macro", "recall", 3]["value"] is not None
    balanced = estimates["a", "ure_balanced", "recall", 3]
    assert balanced["value"] is None
    assert "one random exposure" in balanced["reason"]
    for metric in ("map", "auc"):
        row = estimates["a", "ure_macro", metric, 3 if metric == "map" else 0]
        assert row["value"] is None
        assert row["reason"].startswith("no user can be used")


def test_everything_exposed():
    rng = np.random.default_rng(3)
    values = rng.integers(1, 6, (60, 6)).astype(float)
    estimates, _ = bad(values, [list(range(6))] * 60)
    for name, metric, k in (
        ("macro", "recall", 3),
        ("micro", "recall", 3),
        ("mean", "precision", 3),
        ("mean", "dcg", 3),
        ("mean", "ndcg", 3),
        ("macro", "map", 3),
        ("macro", "auc", 0),
        ("mean", "hit_rate", 3),
    ):
        assert estimates["a", f"ure_{name}", metric, k]["value"] == pytest.approx(
            estimates["a", f"full_{name}", metric, k]["value"], rel=1e-9
        )
    assert estimates["a", "ure_balanced", "recall", 3]["value"] == pytest.approx(
        estimates["a", "full_macro", "recall", 3]["value"], abs=0.02
    )


def test_a_user_without_candidates_is_left_out_and_spoils_nothing():
    batch = made(models=("a",))["a"]
    seen_all = batch.slice(0, 1).to_pylist()[0] | {"user_id": -1, "candidates": 0, "scored": 0}
    for source in ("random", "truth"):
        seen_all[source] = {name: None if name == "probabilities" else [] for name in seen_all[source]}
    more = pa.RecordBatch.from_pylist([seen_all], batch.schema)
    (before, _), (after, _) = results(statistics([batch])), results(statistics([batch, more]))
    for key, row in before.items():
        if key[1] != "ure_balanced":
            assert after[key]["value"] == row["value"]
            assert after[key]["n_left_out"] == row["n_left_out"] + 1
    assert after["a", "ure_balanced", "recall", 3]["value"] == pytest.approx(
        before["a", "ure_balanced", "recall", 3]["value"], abs=0.01
    )


def test_no_bootstrap():
    table = statistics(made(models=("a", "b")).values())
    for row in results_of(table, ASKING._replace(replicates=0))[0]:
        if (row["estimator"], row["metric"], row["k"]) == ("ure_macro", "recall", 3):
            assert row["value"] is not None
            assert row["bootstrap_error"] is row["bootstrap_low"] is row["chance_best"] is None


def test_days_of_even_and_uneven_exposure_have_no_balanced_estimate_together():
    even, uneven = (statistics(made(models=("a", "b"), probabilities=p).values()) for p in (False, True))
    estimates, _ = results(pa.concat_tables([even, uneven]))
    assert estimates["a", "ure_balanced", "recall", 3]["value"] is None
    assert "uneven" in estimates["a", "ure_balanced", "recall", 3]["reason"]


CATEGORY = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 2, -1, -1])  # of each item; -1: not in the table
SLICED = tuple(
    map(
        Metric.parse,
        (
            "recall@1",
            "recall@3",
            "precision@3",
            "dcg@3",
            "rbp@4",
            "ndcg@3",
            "map@3",
            "mrr@3",
            "auc",
            "r_precision",
            "hit_rate@3",
        ),
    )
)


def segments(batch):
    """Of each user: 0, 1, or -1 where the table does not have the user."""
    return batch.column("user_id").to_numpy() // 7 % 3 - 1


@pytest.fixture(scope="module", params=[False, True], ids=["even", "uneven"])
def sliced(request, tmp_path_factory):
    """Batches, and their estimates by slice: of everything, of 3 categories of items and of 2 segments of users, and of what has none."""
    batches = made(seed=9, n_users=400, probabilities=request.param)
    folder = tmp_path_factory.mktemp("slices")
    users = pc.unique(batches["a"].column("user_id"))
    known = segments(batches["a"]) >= 0
    for name, ids, codes in (
        ("category", pa.array(np.flatnonzero(CATEGORY >= 0)), CATEGORY[CATEGORY >= 0]),
        ("segment", users.filter(pa.array(known)), segments(batches["a"])[known]),
    ):
        pq.write_table(pa.table({"key": xxhash64(ids), name: codes.astype(np.int32)}), folder / f"{name}.parquet")
    tables = {name: KeyedTable(name, (str(folder / f"{name}.parquet"),), (name,)) for name in ("category", "segment")}
    plain = replace(QUESTION, metrics=SLICED)
    spec = replace(
        plain,
        slicings=(Slicing("category", "item", 0, ("x", "y", "z")), Slicing("segment", "user", 0, ("old", "new"))),
        item_tables=(tables["category"],),
        user_tables=(tables["segment"],),
    )
    table = statistics([part for b in batches.values() for part in (b.slice(0, 150), b.slice(150))], spec)
    rows, pairs, *_ = results_of(table, ASKING)
    keys = ("slice", "model", "estimator", "metric", "k"), ("slice", "estimator", "metric", "k", "model_a", "model_b")
    estimates, comparisons = (
        {tuple(row[name] for name in key): row for row in some} for key, some in zip(keys, (rows, pairs), strict=True)
    )
    return batches, plain, estimates, comparisons


def same_estimates(found, wanted, part, skip=()):
    """The estimates of a slice are those of a run of its own."""
    compared = 0
    for key, row in wanted.items():
        if key[2] in skip:
            continue
        own = found[part, *key]
        assert (own["n_users"], own["n_left_out"], own["n_unknown"]) == (
            row["n_users"],
            row["n_left_out"],
            row["n_unknown"],
        )
        for name in ("value", "standard_error", "low", "high"):
            if row[name] is None:
                assert own[name] is None, (part, key, name)
            else:
                rel = 1e-6 if key[1] == "ure_balanced" else 1e-12
                assert own[name] == pytest.approx(row[name], rel=rel, abs=1e-12), (part, key, name)
        compared += 1
    assert compared > 60


def test_slices_of_users_are_runs_of_those_users(sliced):
    batches, plain, estimates, comparisons = sliced
    for code, name in enumerate(("segment=old", "segment=new", "segment=NULL")):
        wanted = code if code < 2 else -1
        some = [batch.filter(pa.array(segments(batch) == wanted)) for batch in batches.values()]
        own, pairs = results(statistics(some, plain))
        same_estimates(estimates, own, name)
        for key, row in pairs.items():
            if row["difference"] is not None:
                assert comparisons[name, *key]["difference"] == pytest.approx(row["difference"], rel=1e-6, abs=1e-9)
            assert comparisons[name, *key]["wins"] is None


def relabelled(batch, code):
    """The same rows, with every positive outside the category made no positive."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for source in ("random", "truth"):
        labels = batch.column(source)
        fields = {name: labels.field(n) for n, name in enumerate(labels.type.names)}
        items, values = (fields[name].flatten().to_numpy() for name in ("items", "values"))
        values = np.where((values > 3) & (CATEGORY[items] != code), 1.0, values)
        fields["values"] = pa.ListArray.from_arrays(fields["values"].offsets, pa.array(values))
        columns[source] = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    return pa.RecordBatch.from_pydict(columns)


def test_slices_of_items_count_their_positives_only(sliced):
    batches, plain, estimates, _ = sliced
    for code, name in enumerate(("category=x", "category=y", "category=z", "category=NULL")):
        some = [relabelled(batch, code if code < 3 else -1) for batch in batches.values()]
        own, _ = results(statistics(some, plain))
        same_estimates(estimates, own, name, skip=("auc",))


def test_auc_of_a_slice_is_of_its_positives_against_all_negatives(sliced):
    batches, _, estimates, _ = sliced
    for source, estimator in (("random", "ure_macro"), ("truth", "full_macro")):
        batch = batches["b"]
        facts = facts_of(batch, source)
        items = batch.column(source).field("items").flatten().to_numpy()
        weight = np.ones(items.size) if facts.probability is None else 1 / facts.probability
        for code, name in enumerate(("category=x", "category=y")):
            shares = []
            for u in range(facts.n_users):
                pairs = range(facts.offsets[u], facts.offsets[u + 1])
                good = [p for p in pairs if facts.value[p] > 3 and CATEGORY[items[p]] == code]
                bad = [p for p in pairs if facts.value[p] <= 3]
                if good and bad:
                    won = sum(
                        weight[p]
                        * weight[q]
                        * (1.0 if facts.above[p] < facts.above[q] else 0.5 * (facts.above[p] == facts.above[q]))
                        for p in good
                        for q in bad
                    )
                    shares.append(won / sum(weight[p] * weight[q] for p in good for q in bad))
            row = estimates[name, "b", estimator, "auc", 0]
            assert row["n_users"] == len(shares)
            assert row["value"] == pytest.approx(np.mean(shares), rel=1e-9)


def test_everything_is_the_same_with_and_without_slices(sliced):
    batches, plain, estimates, comparisons = sliced
    own, pairs = results(statistics(batches.values(), plain))
    for key, row in own.items():
        assert estimates["all", *key] == row
    for key, row in pairs.items():
        assert comparisons["all", *key] == row
