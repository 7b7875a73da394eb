"""The rows of user and item tables that a batch uses: their L2 penalty, their gradients, and lazy updates.

    penalty:     decay / 2 * (mean over users |u|^2 + mean over items |v|^2)
    of a batch:  decay / 2 * mean over examples of the sum of |w|^2 m / n_w over the rows w that the example uses

n_w is the number of examples of an epoch that use the row, m the mean of n_w over the rows of that side which any
example uses: the second line is an unbiased estimate of the first. So each row has the same Gaussian prior, as in
[Salakhutdinov, Mnih 2007] eq. 4 and [Rendle et al. 2009] section 4.2, whether it has few pairs or many, against a loss
that is a mean over examples: the same decay means the same for 300 users and for 3 million. An example is a pair (a row
of the user, one of the item) where the loss is a mean over pairs; it is a logged item and the mean of the items drawn
for it where the loss compares these or imputes labels. The layers of a network have no penalty.

A parameter of a module named `past` has a row for each item of a history, and a batch reads the histories of its users:
every step penalises all its rows, each as an item.

A parameter of a module named `user` or `item` is such a table. It is updated lazily (models/adam.py) where a batch
reads nothing of it but its own rows, and the table is LAZY times as long as a batch; the numbers are the same.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.adam import Rows
from models.batch import Batch
from models.host_memory import sent

LAZY = 8  # below, updating the whole table is as fast


class Used(NamedTuple):
    """Rows of one side, and the weight of each row's |w|^2 in the penalty."""

    rows: Tensor  # (m,) int64, ascending, each once
    shares: Tensor  # (m, 1) float32

    def to(self, device: torch.device) -> "Used":
        """The same on a device."""
        return Used(*(sent(tensor, device) for tensor in self))


def even_factors(uses: dict[str, Tensor]) -> dict[str, Tensor]:
    """m / n_w of each user and each item."""
    return {side: n.sum() / (n > 0).sum() / n.clamp(min=1) for side, n in uses.items()}


def used_rows(batch: Batch, by_pair: bool, factors: dict[str, Tensor]) -> dict[str, Used]:
    """The rows of users and of items; by_pair: an example is a pair, else a logged item and those drawn for it."""
    n, k = batch.items.shape
    if by_pair or k == 1:
        of_items = batch.weights / (n * k)
        of_users = of_items.sum(1)
    else:
        of_items = batch.weights / (n * (k - 1))
        of_items[:, 0] = of_users = of_items[:, 1:].sum(1)
    return {
        "user": _used(batch.users, of_users, factors["user"]),
        "item": _used(batch.items.flatten(), of_items.flatten(), factors["item"]),
    }


def rows_of_past(uses: Tensor) -> Used:
    """All rows of a table `past`, for the mean over the items that an example uses."""
    return Used(torch.arange(len(uses)), torch.full((len(uses), 1), 1 / max(1, int((uses > 0).sum()))))


def _used(index: Tensor, shares: Tensor, factors: Tensor) -> Used:
    """Each row once, with the sum of its shares, times its factor."""
    rows, place = index.unique(return_inverse=True)
    return Used(rows, (torch.zeros(len(rows)).index_add_(0, place, shares) * factors[rows])[:, None])


class Table(NamedTuple):
    """A parameter whose rows are users, items, or items of a history."""

    number: int  # among the parameters
    side: str  # user, item or past
    weight: Tensor
    read_by_row: bool  # its gradient is zero but for the batch's rows
    lazy: bool


def tables_of(modules: Sequence[nn.Module], by_row: bool, lazy: bool, batch_size: int) -> list[Table]:
    """The tables among the modules' parameters, in order; by_row: a batch reads its own rows only."""
    tables, number = [], 0
    for module in modules:
        for name, weight in module.named_parameters():
            parts = name.split(".")
            if len(parts) > 1 and parts[-2] in ("user", "item", "past"):
                own = by_row and parts[-2] != "past"
                is_lazy = own and lazy and len(weight) >= LAZY * batch_size
                owner = module.get_submodule(name.rsplit(".", 1)[0])
                assert isinstance(owner, nn.Embedding)
                owner.sparse = is_lazy  # the gradient of a lookup is then that of its rows
                tables.append(Table(number, parts[-2], weight, own, is_lazy))
            number += 1
    return tables


def compact(gradient: Tensor, used: Used) -> Tensor:
    """The gradients of the used rows, shape (m, d)."""
    if not gradient.is_sparse:
        return gradient[used.rows]
    place = torch.searchsorted(used.rows, gradient._indices()[0])
    values = gradient._values()
    return torch.zeros(len(used.rows), values.shape[1], dtype=values.dtype, device=values.device).index_add_(
        0, place, values
    )


def penalised(gradient: Tensor | Rows, table: Table, used: Used, decay: float) -> Tensor | Rows:
    """The gradient with that of the penalty, changed in place."""
    if not decay:
        return gradient
    slope = table.weight.detach()[used.rows].mul_(used.shares).mul_(decay)
    if isinstance(gradient, Rows):
        gradient.values.add_(slope)
        return gradient
    return gradient.index_add_(0, used.rows, slope)
