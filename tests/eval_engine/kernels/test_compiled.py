"""Compiled functions can be defined, and give right results, where no folder can hold their cache."""

import os
import subprocess
import sys
from pathlib import Path

import eval_engine

PROGRAM = """
import numpy as np
from eval_engine.kernels.compare_count import rows_with_nan
print(rows_with_nan(np.array([[1.0, np.nan], [1.0, 2.0]])).tolist())
"""


def test_works_without_a_cache():
    # The locator for notebooks has no folder for a source file: as where neither package nor home folder is writable.
    environment = os.environ | {
        "PYTHONPATH": str(Path(eval_engine.__file__).parents[1]),
        "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator",
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[True, False]"
