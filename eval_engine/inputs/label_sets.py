"""The label sets of a run: the table each comes from, the frame it is ranked in, and the column of its probabilities.

    set       table       candidates of a user                                              probability
    random    exposures   what exposures are drawn from: `frame` of the config              exposure_probability
    heldout   heldout     the recommendation frame: all items but the training pairs        propensity
    truth     truth       as those of random                                                none
    designed  designed    as those of random                                                exposure_probability

`frame: unseen` leaves the training pairs out, `frame: all_items` keeps them. The training pairs are the table
`feedback`: it is a source of pairs, but no label set. A label set is a struct column of the ranks table, with its own
`candidates`. A run has the label sets whose tables its config names; at least one, but
for a run that is ranked for its top lists only.
"""

from typing import Literal, NamedTuple

from eval_engine.inputs.pair_table import PAIR
from eval_engine.kernels.label_rules import DESIGNED, FEEDBACK, HELDOUT, RANDOM, TRUTH

TRAINED = "feedback"  # source and table of the training pairs


class LabelSet(NamedTuple):
    """A set of labelled pairs that are ranked."""

    name: str  # of its column in the ranks table
    number: int  # of its pairs (kernels/label_rules.py)
    table: str  # of the config's inputs
    frame: Literal["exposure", "recommendation"]
    probability: str | None  # the optional column that tells how likely each pair was to be in the table

    def whole(self, frame: str) -> bool:
        """Whether training pairs are candidates of this set; frame: of the config."""
        return self.frame == "exposure" and frame == "all_items"


LABEL_SETS = {
    label_set.name: label_set
    for label_set in (
        LabelSet("random", RANDOM, "exposures", "exposure", "exposure_probability"),
        LabelSet("heldout", HELDOUT, "heldout", "recommendation", "propensity"),
        LabelSet("truth", TRUTH, "truth", "exposure", None),
        LabelSet("designed", DESIGNED, "designed", "exposure", "exposure_probability"),
    )
}
NUMBER = {name: label_set.number for name, label_set in LABEL_SETS.items()} | {TRAINED: FEEDBACK}  # by source
TABLE = {name: label_set.table for name, label_set in LABEL_SETS.items()} | {TRAINED: TRAINED}  # by source


def probability_column(source: str) -> str | None:
    """The optional column of probabilities of a source's table."""
    return LABEL_SETS[source].probability if source in LABEL_SETS else None


def pair_columns(source: str) -> dict[str, str]:
    """The columns of a source's table, the optional one last, and what they mean.

    >>> list(pair_columns("heldout")), list(pair_columns("feedback"))
    (['user_id', 'item_id', 'value', 'propensity'], ['user_id', 'item_id', 'value'])
    """
    column = probability_column(source)
    return PAIR | ({column: "value"} if column else {})
