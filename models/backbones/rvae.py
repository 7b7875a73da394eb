"""RVAE: Mult-VAE's network, which encodes a user's history and scores all items, trained on comparisons or pairs.

    x_u = the history of positives, 1 or 0 for each item;
          in training each 1 is dropped with probability p, the others are divided by 1 - p
    g = tanh(A x_u / ||x_u|| + a)                                                 [Liang et al. 2018] section 2.2
    mean m = M g + c,  log-variance s = S g + e,  z ~ N(m, exp(s))
    h = tanh(B z + f);   x_ui = b + b_i + w_i . h
    loss of eq. 18:  sum over comparisons of -log P  +  kl * sum over users of KL_u       [bqs] eq. 18
    KL_u = 1/2 sum_d (m_d^2 + exp(s_d) - s_d - 1)

||x_u|| is the norm of the whole history. The training loop takes the mean over comparisons, of which a row has k - 1,
and a user has a row for each positive. So a row has the term KL_u / (|x_u| (k - 1)): over an epoch each user's KL_u
counts once, as in eq. 18. The other items of a row are its negatives; with a single item, k - 1 is replaced by 1. Users
are encoded once per batch, with one draw of the dropped items; z is drawn for each row.

Scoring takes z = m. For a user without history the network reads zeros, and only its biases matter. Only the needed
rows of w are gathered.
"""

import torch
from torch import Tensor, nn

from models.backbones import initial
from models.backbones.backbone import Backbone, Noise
from models.backbones.bags import Bags
from models.backbones.history import History
from models.backbones.inner import inner
from models.logged import Logged
from models.spec import gradient as spec
from models.vectors import VectorScorer


class RVAE(Backbone):
    """Encoder and decoder."""

    base: Tensor

    def __init__(self, positives: Logged, model: spec.RVAE, base: float, generator: torch.Generator) -> None:
        super().__init__()
        n_items, hidden, dims = positives.n_items, model.hidden, model.dims
        deviation = initial.xavier(n_items, hidden)
        self.read = initial.normal(n_items, hidden, deviation, generator)  # A
        self.read_bias = nn.Parameter(torch.zeros(hidden))  # a
        self.mean = initial.linear(hidden, dims, initial.xavier(hidden, 2 * dims), generator)
        self.log_variance = initial.linear(hidden, dims, initial.xavier(hidden, 2 * dims), generator)
        self.decoder = initial.linear(dims, hidden, initial.xavier(dims, hidden), generator)
        self.item = initial.normal(n_items, hidden, deviation, generator)  # w
        self.item_bias = initial.zeros(n_items, 1)
        self.register_buffer("base", torch.tensor(base, dtype=torch.float32))
        self.history, self.spec, self.n_items = History(positives), model, n_items

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        return self._decode(self.mean(self._read(self.history.bags(users))), items)

    def train_batch(self, users: Tensor, items: Tensor, noise: Noise) -> tuple[Tensor, Tensor | None]:
        """Numbers from a z drawn for each row, and the mean of the rows' KL terms."""
        unique, row_of = users.unique(return_inverse=True)
        bags = self.history.bags(unique)
        kept = noise.kept(unique[bags.owners()] * self.n_items + bags.rows, 1 - self.spec.dropout)
        read = self._read(bags._replace(weights=bags.weights * kept / (1 - self.spec.dropout)))
        mean, log_variance = self.mean(read), self.log_variance(read)
        z = mean[row_of] + (log_variance[row_of] / 2).exp() * noise.normal(self.spec.dims)
        divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum(1) / 2  # (n_unique,)
        share = divergence / self.history.lengths(unique).clamp(min=1) / max(1, items.shape[1] - 1)
        return self._decode(z, items), self.spec.kl * share[row_of].mean()

    def _read(self, histories: Bags) -> Tensor:
        """g of some histories, shape (n, hidden)."""
        return torch.tanh(histories.sums(self.read.weight) + self.read_bias)

    def _decode(self, z: Tensor, items: Tensor) -> Tensor:
        """Numbers of z (n, dims) with items (n, k), shape (n, k)."""
        return inner(torch.tanh(self.decoder(z)), self.item(items)) + self.item_bias(items).squeeze(2) + self.base

    @torch.no_grad()
    def scorer(self) -> VectorScorer:
        """The scorer of the vectors [h, 1] and [w, b + b_i]."""
        users = torch.cat(
            [
                torch.tanh(self.decoder(self.mean(self._read(self.history.bags(block)))))
                for block in self.history.blocks()
            ]
        )
        items = torch.cat([self.item.weight, self.item_bias.weight + self.base], dim=1)
        return VectorScorer(torch.cat([users, torch.ones_like(users[:, :1])], dim=1), items)
