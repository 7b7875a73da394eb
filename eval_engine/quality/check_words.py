"""What a failed check of the random exposures means for the estimates, and the remedy, by the check's name.

docs/checks.md describes the checks.
"""

MEANING = {
    "uniform_exposure": "Estimators assume that the random exposures are a uniform draw from the frame; these are not: "
    "values, intervals and verdicts may be wrong by any amount, in favour of any model. More users do not correct it.",
    "overlap": "Estimators assume that the random exposures were drawn from what `frame` says; these were not: "
    "values, intervals and verdicts may be wrong by any amount, in favour of any model. More users do not correct it.",
    "probability_sums": "Estimators weight an exposure by 1 / exposure_probability; these cannot be the probabilities "
    "that the exposures were shown with: values, intervals and verdicts may be wrong by any amount, in favour of any "
    "model. More users do not correct it.",
    "score_coverage": "A user without scores of one model is left out for all models. If these users differ from the "
    "others, the estimates hold for the others only.",
    "positives_per_user": "Estimates use only users with a positive among their random exposures. Without such users "
    "they are undefined; with a few, their intervals are too narrow.",
}
REMEDY = {
    "uniform_exposure": "Draw the exposures again; or remove items that cannot be shown from the catalogue; or give "
    "the probability of each exposure as exposure_probability; or correct `frame`",
    "overlap": "Check `frame`, and that feedback does not contain the random exposures themselves",
    "probability_sums": "Give as exposure_probability the probability that the pair was shown, with all pairs that "
    "were shown, and leave items out of the catalogue that cannot be shown; or correct `frame`",
    "score_coverage": "Score these users with every model",
    "positives_per_user": "Collect more random exposures, or check the rule `positive` against their values",
}
# of a check that is not named above
ANY_MEANING = "Values, intervals and verdicts that are computed from the random exposures may be wrong."
ANY_REMEDY = "See docs/checks.md"
