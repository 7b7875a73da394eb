"""What the report knows of an estimator comes from the registry alone."""

import ast
from pathlib import Path

import pytest

from eval_engine.estimators.registry import ESTIMATORS
from eval_engine.metric import Metric
from eval_engine.report import scheme as module
from eval_engine.report.scheme import Scheme

RECALL = Metric("recall", 10)


@pytest.mark.parametrize("file", sorted(Path(module.__file__).parent.glob("*.py")), ids=lambda file: file.stem)
def test_no_estimator_is_named_in_the_report(file: Path) -> None:
    texts = {node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant)}
    assert not texts & set(ESTIMATORS)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_known_estimator_is_as_the_registry_has_it(name: str) -> None:
    known, scheme = ESTIMATORS[name], Scheme(name, RECALL)
    assert scheme.label == known.label_of("recall")
    assert (scheme.role, scheme.estimates) == (known.role, known.estimates)
    assert scheme.rests_on_random is ("random" in known.needs)
    assert scheme.place[0] == list(ESTIMATORS).index(name)


def test_an_estimator_of_ones_own_is_an_estimate_by_its_name_in_words_after_the_known_ones() -> None:
    own = Scheme("my_estimator\x1b", RECALL)
    assert (own.label, own.role, own.estimates) == ("my estimator\\x1b", "estimate", None)
    assert own.rests_on_random
    assert all(Scheme(name, RECALL).place < own.place for name in ESTIMATORS)
