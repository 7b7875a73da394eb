"""Before a task a worker freezes the objects of its libraries, also of those that a later task imported."""

import subprocess
import sys

SCRIPT = """
import gc
from eval_engine.spark.worker_process import FEW_OBJECTS, prepare_worker
import weakref
import numba
prepare_worker()
frozen = gc.get_freeze_count()
assert frozen > FEW_OBJECTS, frozen
prepare_worker()
assert gc.get_freeze_count() == frozen, "a few objects are not worth it"
library = [[n] for n in range(2 * FEW_OBJECTS)]
prepare_worker()
assert gc.get_freeze_count() >= frozen + 2 * FEW_OBJECTS, "objects that came later are not frozen"


class Knot:
    pass


freed = []
for _ in range(3):
    knot = Knot()
    knot.itself, knot.ballast = knot, [[n] for n in range(2 * FEW_OBJECTS)]
    weakref.finalize(knot, freed.append, 1)
    del knot
    prepare_worker()
assert len(freed) == 3, "garbage was frozen and never freed"
"""


def test_libraries_are_frozen_and_garbage_is_not() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)


def test_only_workers_of_an_embedded_spark_print_other_traces() -> None:
    script = """
import os, traceback
from eval_engine.spark.worker_process import prepare_worker
before = traceback.print_exc
prepare_worker()
assert traceback.print_exc is before, "a worker of a cluster was changed"
os.environ["PLUMBLINE_EMBEDDED"] = "1"
prepare_worker()
assert traceback.print_exc is not before
"""
    subprocess.run([sys.executable, "-c", script], check=True)
