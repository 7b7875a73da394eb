"""The config of training: tags, defaults, and errors that name the key."""

import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from models.spec.gradient import MF
from models.spec.losses import Bce
from models.spec.propensities import PopularityPropensity
from models.spec.samplers import Observed
from models.spec.train import Model, Train

MF_IPS = {
    "kind": "mf",
    "name": "mf_ips",
    "loss": {"kind": "bce", "propensity": {"kind": "popularity", "power": 1}},
    "sampler": {"kind": "observed"},
}


def test_tags_choose_the_types() -> None:
    spec = Train.model_validate(
        {"scores": "scores", "models": [{"kind": "random", "name": "r"}, {"kind": "popularity", "name": "p"}, MF_IPS]}
    )
    assert [type(model).__name__ for model in spec.models] == ["Random", "Popularity", "MF"]
    mf = spec.models[2]
    assert isinstance(mf, MF)
    assert isinstance(mf.loss, Bce)
    assert mf.loss.propensity is not None
    assert mf.loss.propensity.power == 1
    assert isinstance(mf.sampler, Observed)
    assert spec.device == "cpu"
    assert spec.block_mb == 64


def test_propensities_without_a_kind_are_those_of_popularity() -> None:
    own = MF_IPS | {"loss": {"kind": "bce", "propensity": {"power": 0.5, "floor": 0.05}}}
    (mf,) = Train.model_validate({"scores": "scores", "models": [own]}).models
    assert isinstance(mf, MF)
    assert isinstance(mf.loss, Bce)
    assert mf.loss.propensity == PopularityPropensity(power=0.5, floor=0.05)
    unknown = MF_IPS | {"loss": {"kind": "bce", "propensity": {"kind": "count"}}}
    with pytest.raises(ValidationError, match="kind is popularity, naive_bayes, table or run"):
        Train.model_validate({"scores": "scores", "models": [unknown]})


def test_dumps_what_it_reads() -> None:
    spec = Train.model_validate({"scores": "scores", "models": [MF_IPS]})
    assert Train.model_validate(spec.model_dump()) == spec


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"dimms": 3}, "dimms"),
        ({"kind": "mff"}, "mff"),
        ({"name": "a/b"}, "model name 'a/b'"),
        ({"loss": {"kind": "bce", "floor": 0.1}}, "floor"),
        ({"sampler": {"kind": "uniform_negatives", "per_positive": 0}}, "per_positive"),
        ({"validation_share": 1.0}, "validation_share"),
        ({"stop_on": "auc"}, "stop_on 'auc' is neither"),
        (
            {"loss": {"kind": "bpr"}},
            "loss bpr compares a positive with a negative, but sampler observed draws no negatives",
        ),
        ({"loss": {"kind": "dr"}}, "need sampler all_pairs"),
        ({"sampler": {"kind": "all_pairs"}}, "need sampler all_pairs"),
        ({"sampler": {"kind": "observed", "label": "value"}}, "needs loss mse"),
        (
            {"sampler": {"kind": "hard_negatives", "hardest": 3, "drawn": 2}},
            r"hardest \(3\) must not exceed drawn \(2\)",
        ),
    ],
)
def test_a_wrong_model_is_an_error_that_names_the_key(change: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        TypeAdapter(Model).validate_python(MF_IPS | change)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"block_mb": 129}, "block_mb"),
        ({"scores": "s3://bucket/x"}, "mounted folder"),
        ({"models": [MF_IPS, MF_IPS]}, "mf_ips"),
        ({"sed": 1}, "sed"),
        ({"models": []}, "nothing to train"),
    ],
)
def test_a_wrong_section_is_an_error_that_names_the_key(change: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        Train.model_validate({"scores": "scores", "models": [MF_IPS]} | change)


def test_a_model_writes_scores_unless_it_or_the_section_says_ranks() -> None:
    models = [
        MF_IPS,
        {"kind": "random", "name": "r", "output": "ranks"},
        {"kind": "popularity", "name": "p", "output": "scores"},
    ]
    assert Train.model_validate({"scores": "s", "models": models}).fused_models() == ("r",)
    assert Train.model_validate({"scores": "s", "models": models, "output": "ranks"}).fused_models() == ("mf_ips", "r")
    assert Train.model_validate({"models": [MF_IPS], "output": "ranks"}).scores is None  # no model writes scores
    with pytest.raises(ValidationError, match="scores: p writes a score table, so a folder is needed"):
        Train.model_validate({"models": models, "output": "ranks"})


def test_needs_no_torch() -> None:
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, models.spec.train; sys.exit('torch' in sys.modules or 'pyspark' in sys.modules)",
        ],
        check=True,
    )
