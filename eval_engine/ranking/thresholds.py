"""The score that an item must pass to be in a user's top K, from the top lists of the ranks table; no score is read again.

    tau_K = score of the (K + 1)-th candidate,  -inf if there are not more than K candidates

An item of the user is in the top K, ties counted against it, exactly if its score is higher than tau_K. NULL where it is not known: the stored list is shorter, or
a partial list has no score for the (K + 1)-th. In a catalog it is a view, `thresholds`; over paths it is the same SQL.
"""

from collections.abc import Iterable


def thresholds_sql(ranks: str, ks: Iterable[int]) -> str:
    """run_id, model, user_id, k, threshold of each user and k; ranks is the table as SQL names it."""
    grid = ", ".join(str(k) for k in sorted(set(ks)))
    return (
        "SELECT run_id, model, user_id, k, CASE WHEN k >= candidates THEN CAST('-Infinity' AS FLOAT) ELSE get(top.scores, k) END AS threshold "
        f"FROM {ranks} LATERAL VIEW explode(array({grid})) AS k WHERE problem IS NULL"
    )
