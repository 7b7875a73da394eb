"""Which model beats which, drawn: each model's chance to be the best as a bar, and a matrix of verdicts.

A verdict is a colour, a sign and a brightness (dark: the row is better than the column, pale: it is worse), so that it
can be read in grey too. Of a few models the cells hold the difference. names: the label of each model in the picture.
"""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from eval_engine.report.cell import value_text
from eval_engine.report.comparison_row import ComparisonRow
from eval_engine.report.estimate_row import defined
from eval_engine.report.pairwise_wins import PairwiseWins, chance_text
from eval_engine.report.plot_orders import INK, MUTED, PALE

BAR = "#0072b2"
MOST = 30  # models in the picture: the best ones
WITH_NUMBERS = 8  # models at most whose differences fit into the cells
VERDICTS = {  # fill, ink, sign, in words
    "a better": ("#0072b2", "white", "+", "row is better"),
    "b better": ("#f6c9a0", INK, "−", "row is worse"),
    "equivalent": ("#d9dde3", INK, "≈", "equivalent"),
    "not decided": ("white", MUTED, "?", "not decided"),
}


def head_height(wins: PairwiseWins, width: float, names: Mapping[str, str]) -> float:
    """Inches of the matrix's column names."""
    return 1.45 if _upright(wins, width, names) else 0.4


def row_height(wins: PairwiseWins) -> float:
    """Inches of one model."""
    return max(0.24, min(0.44, 7 / len(_models(wins))))


def draw_chances(axes: Axes, wins: PairwiseWins, names: Mapping[str, str]) -> None:
    """Draw the bars, best model on top."""
    models = _models(wins)
    size = _size(wins)
    _frame(axes, wins, names)
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    for place, chance in enumerate(wins.chances[: len(models)]):
        axes.barh(place, 1, height=0.5, color="#eef0f3", zorder=1)
        if defined(chance):
            axes.barh(place, chance, height=0.5, color=BAR, zorder=2)
        axes.annotate(
            chance_text(chance),
            (1, place),
            (6, 0),
            textcoords="offset points",
            va="center",
            size=size,
            annotation_clip=False,
        )


def draw_matrix(axes: Axes, wins: PairwiseWins, names: Mapping[str, str]) -> None:
    """Draw a cell for each pair, row against column."""
    models = _models(wins)
    _frame(axes, wins, names)
    axes.set_xlim(-0.5, len(models) - 0.5)
    turn = 90 if _upright(wins, _width(axes), names) else 0
    axes.set_xticks(range(len(models)), [names[model] for model in models], size=_size(wins), rotation=turn)
    axes.xaxis.tick_top()
    for y, row in enumerate(models):
        for x, column in enumerate(models):
            _draw_cell(axes, wins, x, y, None if row == column else wins.pair(row, column))
    used = {pair.verdict for a in models for b in models if a != b and (pair := wins.pair(a, b))}
    handles = [
        Patch(facecolor=fill, edgecolor=PALE, label=f"{sign} {words}")
        for verdict, (fill, _, sign, words) in VERDICTS.items()
        if verdict in used
    ]
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, -0.12 / _height(axes)), ncols=4, frameon=False,
        fontsize=9.5, borderaxespad=0, handlelength=1.4, handleheight=1.1, handletextpad=0.6, columnspacing=1.6,
    )  # fmt: skip


def _draw_cell(axes: Axes, wins: PairwiseWins, x: int, y: int, row: ComparisonRow | None) -> None:
    fill, ink, sign, _ = VERDICTS[row.verdict] if row else ("#f6f7f9", MUTED, "", "")
    axes.add_patch(
        Rectangle(
            (x - 0.47, y - 0.45), 0.94, 0.9, facecolor=fill, edgecolor=PALE if fill == "white" else "none", zorder=2
        )
    )
    if row is None:
        return
    if len(_models(wins)) <= WITH_NUMBERS and wins.decimals < 6 and defined(row.difference):
        number = f"{'−' if row.difference < 0 else '+'}{value_text(abs(row.difference), wins.decimals)}"
        sign = number if sign in "+−" else f"{sign} {number}"
    axes.text(x, y, sign, ha="center", va="center", color=ink, size=_size(wins) - 0.5, zorder=3)


def _frame(axes: Axes, wins: PairwiseWins, names: Mapping[str, str]) -> None:
    models = _models(wins)
    axes.spines[:].set_visible(False)
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.set_yticks(range(len(models)), [names[model] for model in models], size=_size(wins))
    axes.tick_params(length=0, pad=6)


def _upright(wins: PairwiseWins, width: float, names: Mapping[str, str]) -> bool:
    """Whether a name is wider than its column."""
    models = _models(wins)
    return max(len(names[model]) for model in models) * 0.085 > 0.95 * width / len(models)  # inches


def _models(wins: PairwiseWins) -> tuple[str, ...]:
    return wins.models[:MOST]


def _size(wins: PairwiseWins) -> float:
    return 10.5 if len(_models(wins)) <= WITH_NUMBERS else 9.0


def _width(axes: Axes) -> float:
    return float(axes.get_window_extent().width / axes.figure.dpi)


def _height(axes: Axes) -> float:
    return float(axes.get_window_extent().height / axes.figure.dpi)
