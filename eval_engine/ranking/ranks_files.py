"""Whether the files of a run's ranks can be trusted: all of them there and whole, and each model ranked by one job.

A commit names its files with their bytes, so a file that was lost or cut is seen without reading it. A model's rows are
written by one attempt of one job, and the attempt stands in the name of each file: two attempts mean that every user of
the model is there twice.
"""

import re
from collections.abc import Sequence

from eval_engine.lake.delta_table import StoredFile, damaged

ATTEMPT = re.compile(r"/part-((?:[0-9a-f]{12}\.\d+\.\d+\.)?[0-9a-f]{12,32})-[^/]*$")  # other writers' names do not tell


def unusable_ranks(files: Sequence[StoredFile]) -> dict[str, str]:
    """The models whose ranks cannot be used, and why."""
    bad = damaged(files)
    found = {
        str(file.partition["model"]): f"its file {file.path} {bad[file.path]}" for file in files if file.path in bad
    }
    attempts: dict[str, set[tuple[str, str | None]]] = {}
    for file in files:
        if match := ATTEMPT.search(file.path):
            attempts.setdefault(str(file.partition["model"]), set()).add((match[1], file.partition["inputs"]))
    twice = {
        model: "its rows were written by two jobs at once, so that users are there twice"
        for model, own in attempts.items()
        if len(own) > 1
    }
    return twice | found
