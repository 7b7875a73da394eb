"""Initial values of parameters; every draw comes from the run's generator, never from torch's global one.

zeros    0
small    N(0, s^2), s = 0.1 / sqrt(dims): inner products start near zero, and a vector has about the norm of SimGCL's
         noise
xavier   N(0, 2 / (n_in + n_out))                [Glorot, Bengio 2010] eq. 12, as in Mult-VAE
kaiming  N(0, 2 / n_in): layers before a ReLU    [He et al. 2015] eq. 10
"""

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

LENGTH = 0.1


def zeros(n: int, dims: int) -> nn.Embedding:
    """A table of n zero vectors."""
    return table(torch.zeros(n, dims))


def small(n: int, dims: int, generator: torch.Generator) -> nn.Embedding:
    """A table of n small random vectors."""
    return normal(n, dims, LENGTH / dims**0.5, generator)


def normal(n: int, dims: int, deviation: float, generator: torch.Generator) -> nn.Embedding:
    """A table of n random vectors."""
    return table(torch.randn(n, dims, generator=generator) * deviation)


def table(weight: Tensor) -> nn.Embedding:
    """A trainable table with these initial rows."""
    return nn.Embedding.from_pretrained(weight, freeze=False)


def xavier(n_in: int, n_out: int) -> float:
    """The standard deviation for a layer between tanhs."""
    return float((2 / (n_in + n_out)) ** 0.5)


def kaiming(n_in: int) -> float:
    """The standard deviation for a layer before a ReLU."""
    return float((2 / n_in) ** 0.5)


def linear(n_in: int, n_out: int, deviation: float, generator: torch.Generator) -> nn.Linear:
    """A layer with normal weights and zero bias."""
    layer = skip_init(nn.Linear, n_in, n_out)  # its own initialisation would draw from torch's global generator
    with torch.no_grad():
        layer.weight.copy_(torch.randn(n_out, n_in, generator=generator) * deviation)
        layer.bias.zero_()
    return layer
