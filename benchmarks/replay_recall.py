"""Times RePlay's Recall at k on Spark, in RePlay's environment .venv-replay (scripts/bench_setup.sh).

    .venv-replay/bin/python benchmarks/replay_recall.py SCORES LABELS --k 10 --repeats 3

SCORES: Parquet of user_id, item_id, score; LABELS: Parquet of user_id, item_id, the ground truth. Prints one JSON line:

    {"seconds": best of the warm runs, "first": the cold run, "recall": {"10": value}, "jobs": Spark jobs of one run}

What RePlay (replay.metrics.Recall, mode Mean) computes, so that the other side can compute the same:

    recall_k = 1 / |U| sum_{u in U} |G_u and top_k(u)| / |G_u|

- U: users with a label, scored or not; a labelled user without scores counts 0, a scored user without labels is left
  out.
- G_u: the user's labelled items as a set; labelled items without a score stay in |G_u|.
- top_k(u): by score, highest first; ties by the highest item_id. So a tie at place k is broken by id, not shared.

The mean is a float sum in no fixed order: compare to 1e-12, not bit for bit.

How it runs: a query over all pairs looks for duplicates; then a shuffle collects all scores of a user into one array.
After that, once per k, each user's array is sorted in the JVM and pickled to Python, and one query averages the
results. `jobs` and `seconds` contain all that a user waits for, also the two small jobs that open the Parquet tables.
The session is RePlay's own (get_spark_session: 3 shuffle partitions per core) on 2 cores. JAVA_HOME is that of the
environment.
"""

import argparse
import json
import os
import tempfile
import time

QUIET = "--conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false --conf spark.log.level=ERROR"


def measure(scores: str, labels: str, ks: list[int], repeats: int) -> dict[str, object]:
    """Seconds of the cold run and of the best warm run, the recall values, and the number of jobs."""
    from replay.metrics import Recall
    from replay.utils.session_handler import get_spark_session

    spark = get_spark_session(spark_memory=8, core_count=2)
    tracker = spark.sparkContext.statusTracker()
    metric = Recall(ks, query_column="user_id", item_column="item_id", rating_column="score")
    times, answers = [], []
    for _ in range(1 + repeats):
        jobs_before = len(tracker.getJobIdsForGroup())
        start = time.perf_counter()
        answers.append(metric(spark.read.parquet(scores), spark.read.parquet(labels)))
        times.append(time.perf_counter() - start)
        jobs = len(tracker.getJobIdsForGroup()) - jobs_before
    spark.stop()
    recall = {str(k): float(answers[0][f"Recall@{k}"]) for k in ks}
    return {"seconds": min(times[1:]), "first": times[0], "recall": recall, "jobs": jobs}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="RePlay's Recall on Spark, timed: one JSON line.")
    parser.add_argument("scores")
    parser.add_argument("labels")
    parser.add_argument("--k", type=int, nargs="+", default=[10])
    parser.add_argument("--repeats", type=int, default=3, help="warm runs, after a cold one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPARK_LOCAL_DIRS"] = folder  # else RePlay's session spills to a folder in the user's home
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{QUIET} pyspark-shell"
        print(json.dumps(measure(given.scores, given.labels, given.k, given.repeats)))
