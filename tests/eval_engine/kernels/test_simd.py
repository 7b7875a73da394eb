"""Masks and counts equal those of plain loops, at the edges of the vectors, and on a machine without AVX-512."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import eval_engine
from eval_engine.kernels.simd import AHEAD, LANES, count_1, count_2, count_4, count_8, lowest, passing

SCORES = np.array([-np.inf, -1.0, -0.0, 0.0, 1e-40, 1.0, np.inf, np.nan])
COUNTERS = {1: count_1, 2: count_2, 4: count_4, 8: count_8}


@njit
def mask_of(row, start, threshold):
    return passing(row, start, threshold)


@njit
def lowest_of(bits):
    return lowest(bits)


def compiled_counter(count):
    @njit
    def counted(row, positions, first, greater, at_least):
        return count(row, positions, first, greater, at_least)

    return counted


@pytest.mark.parametrize("threshold", [-np.inf, 0.0, 1e-40, np.inf])
@pytest.mark.parametrize("start", [0, 1, 37])
def test_passing_has_one_bit_per_score(start, threshold):
    row = np.random.default_rng(start).choice(SCORES, start + LANES).astype(np.float32)
    want = sum(1 << j for j in range(LANES) if row[start + j] >= np.float32(threshold))
    assert int(mask_of(row, start, np.float32(threshold))) == want


@pytest.mark.parametrize("bit", [0, 1, 31, 32, 63])
def test_lowest_set_bit(bit):
    assert lowest_of(np.uint64((1 << bit) | (1 << 63))) == bit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", COUNTERS)
def test_counts_of_whole_vectors(n, dtype):
    counted = compiled_counter(COUNTERS[n])
    rng = np.random.default_rng(n)
    first = 3  # the counts before and after those of the n labels must not be written
    for n_items in (1, 7, 8, 15, 16, 17, 63, 64, 65, 1000, AHEAD + 5):
        row = rng.choice(SCORES, n_items).astype(dtype)
        positions = rng.integers(0, n_items, first + n + 2).astype(np.int32)
        greater, at_least = np.full(positions.size, -9, np.int32), np.full(positions.size, -9, np.int32)
        end = counted(row, positions, first, greater, at_least)
        assert n_items - 16 < end <= n_items
        own = row[positions[first : first + n]]
        assert greater[first : first + n].tolist() == [sum(s > t for s in row[:end]) for t in own]
        assert at_least[first : first + n].tolist() == [sum(s >= t for s in row[:end]) for t in own]
        for counts in (greater, at_least):
            assert counts[:first].tolist() + counts[first + n :].tolist() == [-9] * 5


PROGRAM = """
import numpy as np
from numba.core.registry import cpu_target
from eval_engine.kernels.compare_count import compare_count
assert "avx512" not in cpu_target.target_context.codegen().magic_tuple()[2]
rng = np.random.default_rng(5)
row = rng.integers(-90, 90, 1003).astype(np.float32)
labels, excluded = np.split(rng.permutation(1003)[:60], [15])
above, tied = compare_count(row[None], np.array([0, 15]), labels, np.array([0, 45]), excluded)
rest = np.delete(row, excluded)
assert above.tolist() == [(rest > row[i]).sum() for i in labels]
assert tied.tolist() == [(rest == row[i]).sum() - 1 for i in labels]
"""


def test_counts_without_avx512(tmp_path):
    machine = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    environment = os.environ | machine | {"PYTHONPATH": str(Path(eval_engine.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
