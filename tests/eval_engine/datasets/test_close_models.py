"""Users and models of the simulations of exposure: lists are ranks, data of a user is its own, the first model is better."""

import numpy as np

from eval_engine.datasets.close_models import close_models
from eval_engine.datasets.world import World, ratings

WORLD = World(users=150, items=200, exposures=1, shown=1, frame="all_items", seed=4)


def test_lists_are_the_first_of_the_ranks_and_likes_are_the_highest_rating():
    models = close_models(WORLD, 4, 7, 0.35, n_ranked=4)
    assert models.lists.shape == (4, 150, 7)
    for model in range(4):
        for user in (0, 99):
            assert sorted(models.ranks[model, user].tolist()) == list(range(200))
            assert models.ranks[model, user, models.lists[model, user]].tolist() == list(range(7))
    assert (models.liked[3] == (ratings(WORLD, 3) == 5)).all()


def test_a_user_does_not_depend_on_the_others_nor_a_model_on_how_many_there_are():
    few = close_models(WORLD.model_copy(update={"users": 9}), 2, 7, 0.35)
    many = close_models(WORLD, 5, 7, 0.35)
    assert (few.lists == many.lists[:2, :9]).all()
    assert (few.ranks == many.ranks[:, :9]).all()


def test_close_models_are_alike_as_asked_and_the_first_is_better():
    near, far = (close_models(WORLD, 2, 10, apart) for apart in (0.05, 1.0))

    def shared(models):
        return np.mean([np.intersect1d(*models.lists[:, user]).size for user in range(WORLD.users)])

    assert shared(near) > shared(far) + 2
    hits = [(near.liked & (own < 10)).sum() for own in near.ranks]
    assert hits[0] > hits[1]
