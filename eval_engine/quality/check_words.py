"""What a check of the random exposures that did not pass means for the estimates, and what to do about it.

By the check's name; docs/checks.md tells more.
"""

MEANING = {
    "uniform_exposure": "Estimates take the random exposures for a uniform draw from the frame, and they are not one: "
    "values, intervals and verdicts may be wrong by any amount, in favour of any model. More users do not mend that.",
    "overlap": "The random exposures were not drawn from what `frame` says, and estimates take them for drawn from it: "
    "values, intervals and verdicts may be wrong by any amount, in favour of any model. More users do not mend that.",
    "score_coverage": "Users whom a model did not score are left out for all models. If they are not like the others, "
    "estimates are of the others only.",
    "positives_per_user": "Estimates rest on users with a positive among their random exposures. Without any they are "
    "undefined; from a few, their intervals are too narrow.",
}
REMEDY = {
    "uniform_exposure": "Draw them anew; or take items that cannot be shown out of the catalogue; or give the chance "
    "of each exposure as exposure_probability; or correct `frame`",
    "overlap": "Check `frame`, and that feedback does not hold the random exposures themselves",
    "score_coverage": "Score these users with every model",
    "positives_per_user": "Collect more random exposures, or check the rule `positive` against their values",
}
ANY_MEANING = (
    "Values, intervals and verdicts that rest on the random exposures may be wrong."  # of a check not named here
)
ANY_REMEDY = "See docs/checks.md"
