"""A panel with what a terminal, a sentence or a picture has room for; the page's tables have all of it.

Many models (a search) or many settings of one estimator (strata of 2 to 10, twenty test sets) would make a picture of
twenty thousand lines. Then one setting of each estimator is kept, and of the models those that are best by the
reference and the one that each scheme puts first.
"""

from typing import NamedTuple

from eval_engine.report.panel import Panel
from eval_engine.report.scheme import Scheme

MOST_SCHEMES, MOST_MODELS = 12, 25


class Shortened(NamedTuple):
    """The panel that is shown, and how much is not."""

    panel: Panel
    n_schemes: int  # left out
    n_models: int  # left out

    @property
    def note(self) -> str:
        """What is left out, as a sentence; empty if nothing is."""
        parts = [
            f"{n} more {thing if n == 1 else things}"
            for n, thing, things in (
                (self.n_models, "model", "models"),
                (self.n_schemes, "setting of these estimators", "settings of these estimators"),
            )
            if n
        ]
        return f"{' and '.join(parts)}: on the page." if parts else ""


def shortened(panel: Panel) -> Shortened:
    """The panel itself if it is small."""
    targets = {panel.own_target(scheme) for scheme in panel.schemes}
    own = [scheme for scheme in panel.schemes if scheme not in targets]
    kept = {(scheme.setting_of, scheme.metric): scheme for scheme in reversed(own)}  # the first of each
    schemes = own if len(own) <= MOST_SCHEMES else [s for s in own if kept[s.setting_of, s.metric] == s]
    models = panel.models
    if len(models) > MOST_MODELS:
        firsts = {model for scheme in schemes if (model := _first(panel, scheme)) is not None}
        rest = [model for model in models if model not in firsts]
        some = {*firsts, *rest[: max(MOST_MODELS - len(firsts), 0)]}
        models = tuple(model for model in models if model in some)
    shown = tuple(s for s in panel.schemes if s in schemes or s in {panel.own_target(one) for one in schemes})
    return Shortened(
        panel._replace(models=models, schemes=shown), len(own) - len(schemes), len(panel.models) - len(models)
    )


def _first(panel: Panel, scheme: Scheme) -> str | None:
    values = {model: value for model in panel.models if (value := panel.value(scheme, model)) is not None}
    return max(values, key=lambda model: values[model]) if values else None
