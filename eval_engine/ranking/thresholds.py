"""The score that an item must pass to be in a user's top K, from the top lists of the ranks table; no score is read again.

    tau_K = score of the (K + 1)-th candidate,  -inf if there are not more than K candidates

An item of the user is in the top K, ties counted against it, exactly if its score is higher than tau_K. NULL where it
is not known: a partial list has no score for the (K + 1)-th.

K goes from 1 to the length of the run's longest stored list less one, which is `top` of its config, or one less than
the candidates where no user has more: whatever cutoffs a run was evaluated at, the same SQL answers for it. In a
catalog it is a view of all runs, `thresholds`; over paths it is the same SQL.
"""


def thresholds_sql(ranks: str) -> str:
    """run_id, model, user_id, k, threshold of each user and k; ranks is the table as SQL names it."""
    lists = f"FROM {ranks} WHERE problem IS NULL"
    return (
        "SELECT run_id, model, user_id, k, "
        "CASE WHEN k >= candidates THEN CAST('-Infinity' AS FLOAT) ELSE get(scores, k) END AS threshold "
        f"FROM (SELECT run_id, model, user_id, candidates, top.scores AS scores {lists}) "
        f"JOIN (SELECT run_id, greatest(1, max(size(top.scores)) - 1) AS longest {lists} GROUP BY run_id) "
        "USING (run_id) "
        "LATERAL VIEW explode(sequence(1, longest)) AS k"
    )
