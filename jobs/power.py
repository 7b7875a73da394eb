"""How many users it takes to tell the models of a run apart, from its random exposures: before an experiment.

    plumbline power 2026-11-15 --lake data/lake --detect 2% --metric recall@20 --exposures 5,10,20 --curve power.png

Prints two tables, what a difference takes and the curve (what is seen with a number of users), and draws the curve.
Reads ranks and the catalogue of a run that is ranked, at most --users users of it, chosen by hash; no score, and no
Spark. A run without random exposures has nothing to plan from: expose some users uniformly first, a pilot.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from eval_engine.errors import ConfigError, DataError, OutputError
from eval_engine.evaluation.statistics_plan import rank_facts_of
from eval_engine.exposure_design.plan_rows import bins_of
from eval_engine.exposure_design.power import FEW_POSITIVES, Pilot, Power, planned
from eval_engine.kernels.arrays import Ints
from eval_engine.kernels.rank_facts import RankFacts
from eval_engine.lake.lake import Lake
from eval_engine.metric import Metric
from eval_engine.plain_text import plain
from eval_engine.positive import Positive
from eval_engine.ranking.long_file import Ids, item_ids
from eval_engine.report.power_curve import save_curve, seen_with, users_shown
from eval_engine.storage.stored_file import open_file
from eval_engine.tables import CATALOGUE, RANKS
from jobs.stage import done_stage

AT_ONCE = 1 << 14
FIELDS = ("items", "values", "above", "tied", "probabilities", "candidates", "scored")


class Sample(NamedTuple):
    """Some users of a run with random exposures."""

    pilot: Pilot
    models: tuple[str, ...]
    n_exposed: int  # users of the run with random exposures


def run(
    lake: Lake,
    run_id: str,
    metric: str,
    detect: str,
    exposures: Sequence[int],
    uniform: float,
    chance: float,
    n_users: int,
    console: Console,
    curve: Path | None = None,
) -> list[Power]:
    """Print what every pair of models needs; curve: also draw it there."""
    own = Metric.parse(metric)
    share = share_of(detect)
    sample = sample_of(lake, run_id, own, n_users)
    rows = planned(sample.pilot, own, share, exposures, uniform, chance, 0.95)
    console.print(grid(rows, sample, own, share, chance))
    if steps := users_shown(rows):
        console.print(curve_grid(rows, sample, own, chance, steps))
    if curve is not None:
        what = f"{own}, {chance:.0%} power"
        n = sample.pilot.facts[0].n_users
        try:
            save_curve(rows, sample.models, n, sample.n_exposed, share, what, curve)
        except OSError as error:
            raise OutputError(f"--curve {curve} cannot be written: {error.strerror}. Give another file.") from None
        console.print(Text(plain(f"Curve: {curve}")), soft_wrap=True)
    for line in notes(rows, sample, own):
        console.print(Text(plain(line)))
    return rows


def share_of(detect: str) -> float:
    """2% or 0.02 as a share."""
    try:
        return float(detect.removesuffix("%")) / (100 if detect.endswith("%") else 1)
    except ValueError:
        raise ConfigError(f"--detect {detect} is no share of the metric's value: write 2% or 0.02.") from None


def sample_of(lake: Lake, run_id: str, metric: Metric, n_users: int) -> Sample:
    """The pilot of a run: at most n_users of its users with random exposures."""
    ranked = json.loads(done_stage(lake, run_id, "rank")["config"])
    catalogue = tuple(file.path for file in lake.files(CATALOGUE, run_id))
    files = lake.files(RANKS, run_id)
    if not files or not catalogue:
        raise ConfigError(f"run {run_id}: only Spark can read the ranks of the lake {lake.root}: use a folder or URI.")
    models = tuple(sorted({str(file.partition["model"]) for file in files}))
    by_model = {model: [file.path for file in files if str(file.partition["model"]) == model] for model in models}
    bins = np.bincount(np.concatenate([_exposed_bins(path) for path in by_model[models[0]]]), minlength=1)
    n_exposed = int(bins.sum())
    if not n_exposed:
        raise DataError(
            f"run {run_id} has no random exposures, so there is no pilot to plan from. Expose some hundred users "
            "uniformly, and rank them."
        )
    n_bins = max(1, int(np.searchsorted(np.cumsum(bins), n_users, side="right")))
    items, longest = item_ids(catalogue), max(metric.k, 1)
    facts: list[RankFacts] = []
    lists, users, shown = [], None, None
    for model in models:
        rows = pa.concat_tables([_sampled(path, n_bins) for path in by_model[model]]).combine_chunks()
        rows = rows.take(pc.sort_indices(rows, [("user_id", "ascending")])).combine_chunks()
        batch = rows.to_batches()[0]
        labels, frame = {name: batch.column(name) for name in FIELDS[1:5]}, (batch.column(n) for n in FIELDS[5:])
        facts.append(rank_facts_of(labels, *frame))
        same = batch.column("user_id"), batch.column("items").flatten()
        if users is not None and not (users.equals(same[0]) and same[1].equals(shown)):
            raise DataError(
                f"ranks: the models {models[0]} and {model} were ranked on other exposures. Run jobs/rank.py again."
            )
        users, shown = same
        lists.append(_lists(batch.column("top"), items, longest))
    assert shown is not None
    positions = items.positions(shown if pa.types.is_integer(shown.type) else shown.dictionary_encode())
    positive = Positive.parse(ranked["positive"]).of(facts[0].value)
    pilot = Pilot(np.stack(lists), len(items.ids), positions, facts, positive, (metric.k,))
    return Sample(pilot, models, n_exposed)


def _exposed_bins(path: str) -> Ints:
    """The bins of the users of a file that have random exposures."""
    found: list[Ints] = [np.empty(0, np.int64)]
    with open_file(path) as handle, pq.ParquetFile(handle) as file:
        for batch in file.iter_batches(AT_ONCE, columns=["user_id", "random.values"]):
            n = pc.list_value_length(batch.column("random").field("values")).fill_null(0)
            found.append(bins_of(batch.column("user_id").filter(pc.greater(n, 0)), 0))
    return np.concatenate(found)


def _sampled(path: str, n_bins: int) -> pa.Table:
    """The rows of drawn users with random exposures, flat."""
    wanted = ["user_id", "candidates", "scored", "top.items", *(f"random.{name}" for name in FIELDS)]
    parts = []
    with open_file(path) as handle, pq.ParquetFile(handle) as file:
        for batch in file.iter_batches(AT_ONCE, columns=wanted):
            own = batch.column("random")
            n = pc.list_value_length(own.field("values")).fill_null(0)
            kept = pc.and_(pc.greater(n, 0), pa.array(bins_of(batch.column("user_id"), 0) < n_bins))
            columns = {"user_id": batch.column("user_id"), "top": batch.column("top").field("items")}
            columns |= {name: _field(batch, own, name) for name in FIELDS}
            parts.append(pa.RecordBatch.from_pydict(columns).filter(kept))
    return pa.Table.from_batches(parts)


def _field(batch: pa.RecordBatch, own: pa.Array, name: str) -> pa.Array:
    """A field of the random exposures; rows of older versions have the row's counts, and no probabilities."""
    if own.type.get_field_index(name) >= 0:
        return own.field(name)
    return batch.column(name) if name in batch.schema.names else pa.nulls(len(own), pa.list_(pa.float64()))


def _lists(column: pa.Array, items: Ids, longest: int) -> Ints:
    """The first of each list, as positions; -1 after the end."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    flat = column.flatten()
    positions = items.positions(flat if pa.types.is_integer(flat.type) else flat.dictionary_encode())
    found = np.full((len(column), max(longest, int(lengths.max(initial=1)))), -1, np.int32)
    place = np.arange(len(flat)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found[np.repeat(np.arange(len(column)), lengths), place] = positions
    return found


def grid(rows: Sequence[Power], sample: Sample, metric: Metric, share: float, chance: float) -> Grid:
    """A row per pair of models, number of exposures and way to expose."""
    of = f"{'pooled ' if metric.base == 'recall' else ''}{metric.base}"
    table = Grid(title=f"Users needed to see a difference of {share:.2%} in {metric} ({of}), with {chance:.0%} power")
    for name in (
        "model",
        "against",
        "exposures",
        "way",
        "users",
        "95 % interval",
        "times fewer",
        "seen with the exposures there are",
    ):
        table.add_column(name, justify="left" if name in ("model", "against", "way") else "right")
    n = sample.pilot.facts[0].n_users
    for row in rows:
        names = [Text(plain(sample.models[m])) for m in (row.first, row.second)]
        if not row.users > 0:
            table.add_row(*names, str(row.exposures), row.design, "?", "", "", "")
            continue
        seen = row.detectable * (n / users_there(sample, row.exposures)) ** 0.5
        cells = [str(row.exposures), row.design, f"{row.users:,.0f}", f"{row.low:,.0f} to {row.high:,.0f}"]
        table.add_row(*names, *cells, f"{row.gain:.1f}", f"{seen:.1%}")
    return table


def users_there(sample: Sample, exposures: int) -> float:
    """The users whom the run's random exposures would be shown to, so many each."""
    own = sample.pilot.facts[0]
    return sample.n_exposed * own.value.size / own.n_users / exposures


def curve_grid(rows: Sequence[Power], sample: Sample, metric: Metric, chance: float, steps: Sequence[int]) -> Grid:
    """The smallest difference that each row sees with each number of users."""
    table = Grid(title=f"Smallest difference in {metric} that is seen with {chance:.0%} power, by number of users")
    for name in ("model", "against", "exposures", "way", *(f"{n:,}" for n in steps)):
        table.add_column(name, justify="left" if name in ("model", "against", "way") else "right")
    n_pilot = sample.pilot.facts[0].n_users
    for row in rows:
        if row.users > 0:
            names = [sample.models[m] for m in (row.first, row.second)]
            seen = [f"{seen_with(row, n_pilot, n)[0]:.1%}" for n in steps]
            table.add_row(*(Text(plain(name)) for name in names), str(row.exposures), row.design, *seen)
    return table


def notes(rows: Sequence[Power], sample: Sample, metric: Metric) -> list[str]:
    """What the table rests on."""
    n = sample.pilot.facts[0].n_users
    lines = [
        f"From {n:,} of the {sample.n_exposed:,} users with random exposures; the interval is of what so few of them "
        "leave open. Seen: the smallest difference that the run's exposures would show, if as many were shown in this "
        "way. Two arms: a plan for all models of the run; pair: for these two models and their difference only."
    ]
    few = sorted({(row.first, row.second) for row in rows if row.n_positives < FEW_POSITIVES})
    if few:
        names = ", ".join(f"{sample.models[a]} and {sample.models[b]}" for a, b in few)
        lines.append(
            f"?: of {names} fewer than {FEW_POSITIVES} positives of the pilot stand in the top {metric.k} of one model "
            "and not of the other, so no number can be given. Take a larger pilot, or a larger cutoff."
        )
    return lines
