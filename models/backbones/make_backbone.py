"""The backbone that a config names, before the first step of training.

Graphs and histories contain the positives of the training pairs; SVD++'s history contains all training pairs.
"""

import torch

from models.backbones.backbone import Backbone
from models.backbones.lightgcn import LightGCN
from models.backbones.mf import MatrixFactorisation
from models.backbones.ncf import GMF, MLP, NeuMF
from models.backbones.nmf import NonNegativeFactorisation
from models.backbones.rvae import RVAE
from models.backbones.simgcl import SimGCL
from models.backbones.svdpp import SVDpp
from models.logged import Logged
from models.spec import gradient as spec


def make_backbone(model: spec.Backbone, logged: Logged, base: float, generator: torch.Generator) -> Backbone:
    """The backbone, with all its random numbers from the generator; `base` is the number of the average label."""
    n_users, n_items = logged.n_users, logged.n_items
    match model:
        case spec.MF():
            return MatrixFactorisation(n_users, n_items, model.dims, base if model.biases else None, generator)
        case spec.NMF():
            return NonNegativeFactorisation(n_users, n_items, model.dims, base, generator)
        case spec.SVDpp():
            return SVDpp(logged, model.dims, base, generator)
        case spec.LightGCN():
            return LightGCN(logged.positives(), model.dims, model.layers, generator)
        case spec.SimGCL():
            return SimGCL(logged.positives(), model, generator)
        case spec.RVAE():
            return RVAE(logged.positives(), model, base, generator)
        case spec.GMF():
            return GMF(n_users, n_items, model.dims, generator)
        case spec.MLP():
            return MLP(n_users, n_items, (model.dims, model.layers), base, generator)
        case spec.NeuMF():
            return NeuMF(n_users, n_items, (model.dims, model.layers), base, generator)
