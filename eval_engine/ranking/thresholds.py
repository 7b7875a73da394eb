"""The score that an item must pass to be in a user's top K, among the candidates of the user's random exposures.

    tau_K = score of the (K + 1)-th candidate,  -inf if there are not more than K candidates

An item of the user is in the top K, ties counted against it, exactly if its score is higher than tau_K. NULL where it
is not known: a partial list has no score for the (K + 1)-th.

K are the cutoffs of the run's metrics when it was ranked, as far as its top lists go. The thresholds are lists of
`random` in the ranks table, beside K: no score is read again. In a catalog the rows of all runs are a view,
`thresholds`; over paths it is the same SQL. Runs of versions without these lists have no rows in it.
"""

from collections.abc import Iterable

from eval_engine.metric import Metric


def threshold_cutoffs(metrics: Iterable[Metric], top: int) -> tuple[int, ...]:
    """The cutoffs that a run keeps thresholds of; top: the length of its top lists, which hold one item more.

    >>> threshold_cutoffs([Metric("ndcg", 20), Metric("recall", 5), Metric("recall", 20), Metric("auc", 0)], 10)
    (5,)
    """
    return tuple(sorted({metric.k for metric in metrics if 0 < metric.k <= top}))


def thresholds_sql(ranks: str) -> str:
    """run_id, model, user_id, k, threshold of each user and cutoff; ranks is the table as SQL names it."""
    return (
        "SELECT run_id, model, user_id, cut.k AS k, cut.thresholds AS threshold "
        f"FROM {ranks} LATERAL VIEW explode(arrays_zip(random.k, random.thresholds)) AS cut "
        "WHERE problem IS NULL"
    )
