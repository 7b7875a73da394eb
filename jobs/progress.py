"""Progress while Spark works: the running stages' tasks, polled in a thread and shown by rich; a plain line where there
is no terminal.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from eval_engine.plain_text import plain

EVERY_SECONDS = 0.25


@contextmanager
def spark_progress(spark: SparkSession, console: Console, title: str) -> Iterator[None]:
    """Shows how far the work inside the block has come, and how long it took; the title may hold text from outside."""
    title, started = plain(title), time.monotonic()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),  # names of models stand in it
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None, note="")
        over = threading.Event()

        def poll() -> None:
            while not over.wait(EVERY_SECONDS):
                done, total, n_stages = _tasks(spark)
                bar.update(
                    task,
                    total=total or None,
                    completed=done,
                    note=f"{done}/{total} tasks of {n_stages} stages" if total else "",
                )

        watcher = threading.Thread(target=poll, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
    took = f"{time.monotonic() - started:.1f} s"
    console.print(Text.assemble(("✓", "green"), f" {title} ", (took, "dim")))


def _tasks(spark: SparkSession) -> tuple[int, int, int]:
    """Finished and all tasks of the stages that run now; nothing over Spark Connect, which does not tell."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [info for info in map(tracker.getStageInfo, tracker.getActiveStageIds()) if info]
    except Exception:  # Spark Connect, or a context that is just going away: progress is a courtesy
        return 0, 0, 0
    return sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages), len(stages)
