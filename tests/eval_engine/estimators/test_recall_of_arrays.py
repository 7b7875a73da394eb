"""The calls for arrays in memory: estimate, interval and users, and no Spark on the way."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eval_engine
from eval_engine import full_recall, full_recall_micro, rank_facts, traditional_recall, ure_recall, ure_recall_micro

SCORES = np.array([[4, 3, 2, 1], [1, 2, 3, 4], [1, 1, 1, 1]], np.float32)


def test_values():
    facts = rank_facts(SCORES, items=[[0, 3], [0, 1], [2]], values=[[5, 5], [5, 1], [1]])
    positive = facts.value > 3
    assert ure_recall(facts, 1, positive).value == pytest.approx((0.5 + 0) / 2)
    assert ure_recall_micro(facts, 1, positive).value == pytest.approx((2 * 1 + 2 * 0) / (2 * 2 + 2 * 1))
    assert full_recall(facts, 1, positive).value == pytest.approx(0.25)
    assert full_recall_micro(facts, 1, positive).value == pytest.approx(1 / 3)
    assert traditional_recall(facts, 1, positive).value == pytest.approx((0.5 + 0) / 2)
    assert traditional_recall(facts, 2, positive).value == 1
    assert ure_recall(facts, 1, positive)[4:] == (2, 1, 0)


def test_every_value_above_zero_is_positive_by_default():
    facts = rank_facts(SCORES, items=[[0, 3], [0, 1], [2]])
    assert ure_recall(facts, 2).value == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert ure_recall(facts, 2, ties="strict").value == pytest.approx(0.5 / 3)


def test_importing_it_starts_no_spark():
    environment = os.environ | {"PYTHONPATH": str(Path(eval_engine.__file__).parents[1])}
    program = "import sys, eval_engine; print([m for m in ('pyspark', 'torch', 'pandas', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
