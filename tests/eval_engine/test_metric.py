"""A metric prints as it parses, with its parameters written out; what is not a metric is named."""

import pytest

from eval_engine.metric import KINDS, KNOWN, Metric, MetricKind, Parameter, register


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("recall@10", "recall@10"),
        (" auc ", "auc"),
        ("rbp@10", "rbp(p=0.8)@10"),
        ("rbp()@10", "rbp(p=0.8)@10"),
        ("rbp( p = 0.50 )@3", "rbp(p=0.5)@3"),
        ("r_precision", "r_precision"),
    ],
)
def test_prints_as_it_parses(text: str, printed: str) -> None:
    metric = Metric.parse(text)
    assert str(metric) == printed
    assert Metric.parse(printed) == metric
    assert metric.name.startswith(metric.base)


def test_parameters() -> None:
    assert Metric.parse("rbp(p=0.25)@3").parameters == {"p": 0.25}
    assert Metric.parse("recall@3").parameters == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rbq@10", "unknown metric 'rbq@10'"),
        ("rbp", "unknown metric 'rbp'"),
        ("auc@3", "unknown metric"),
        ("rbp(p=1)@10", "p must lie between 0 and 1, found 1"),
        ("rbp(p=nan)@10", "p must lie between 0 and 1"),
        ("rbp(p=x)@10", "p='x' is not a number"),
        ("rbp(q=0.5)@10", "rbp has no parameter 'q'; its parameters are p"),
        ("recall(p=0.5)@10", "recall has no parameter 'p'; it has none"),
    ],
)
def test_what_is_not_a_metric(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Metric.parse(text)


def test_a_metric_of_another_package() -> None:
    register(MetricKind("toy", at_k=False, parameters={"a": Parameter(1.0, 0.0, 9.0), "b": Parameter(2.0, 0.0, 9.0)}))
    try:
        assert str(Metric.parse("toy(b=3)")) == "toy(a=1,b=3)"
        assert Metric.parse("toy(b=3)").parameters == {"a": 1.0, "b": 3.0}
    finally:
        del KINDS["toy"]
        KNOWN.remove("toy")
    with pytest.raises(ValueError, match="small letters"):
        register(MetricKind("Toy@3", at_k=False))
