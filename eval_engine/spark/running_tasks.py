"""Whether tasks of a failed job still run.

When a task fails, Spark ends the job at once and only asks the other tasks to stop. A task that is about to finish may
write its file after the driver has removed what the job wrote.
"""

import time

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

JOBS = 3  # the newest ones are looked at
UPDATED = 0.3  # seconds after which Spark's figures of a stage are up to date


def wait_for_tasks(spark: SparkSession | None, seconds: float = 10.0) -> None:
    """Wait until no task of the newest jobs runs, for so many seconds at most. Over Spark Connect nothing is known of
    tasks, and nothing is waited for.
    """
    try:
        tracker = spark.sparkContext.statusTracker() if spark is not None else None
    except (AttributeError, PySparkException):
        return
    if tracker is None:
        return
    end = time.monotonic() + seconds
    while True:
        time.sleep(UPDATED)
        jobs = [tracker.getJobInfo(number) for number in sorted(tracker.getJobIdsForGroup())[-JOBS:]]
        stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
        if not any(stage.numActiveTasks for stage in stages if stage is not None) or time.monotonic() > end:
            return
