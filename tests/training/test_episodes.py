"""The statistics of episodes: whole ones only, each by its own sums, the latest hundred."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.core.types import Trajectories
from focops.training import episodes
from focops.training.episodes import RECENT
from tests.training.reference import Episodes


def trajectories(**numbers) -> Trajectories:
    """Without what episodes' statistics do not need."""
    return Trajectories(**(dict.fromkeys(Trajectories._fields) | numbers))


def test_each_whole_episode_is_summed_as_by_hand():
    ages = np.array([[0, 0], [1, 1], [2, 0], [0, 1]])
    rewards = np.array([[1.0, 10], [2, 20], [4, 40], [8, 80]])
    terminated = np.zeros((4, 2), bool)
    truncated = np.zeros((4, 2), bool)
    truncated[2, 0] = True  # by the environment: a whole episode
    truncated[1, 1] = True  # by us (staggered): not one
    cut = np.zeros((4, 2), bool)
    cut[1, 1] = True
    terminated[3, 1] = True
    batch = trajectories(
        reward=rewards, cost=rewards[..., None], terminated=terminated, truncated=truncated, cut=cut, age=ages
    )
    count = jax.jit(lambda before, batch: episodes.count(before, batch, jnp.array([0.5])))
    found = count(episodes.init(2, 1), batch)
    # (length, reward, discounted cost, undiscounted cost)
    expected = [(3, 7, 1 + 0.5 * 2 + 0.25 * 4, 7), (2, 120, 40 + 0.5 * 80, 120)]
    np.testing.assert_allclose(found.recent[:2], expected)
    np.testing.assert_allclose(episodes.means(found), np.mean(expected, 0))
    assert found.finished == 2
    # the first environment's running episode goes on in the next batch
    more = batch._replace(
        age=ages + np.array([[1, 0]]), terminated=np.eye(4, 2, dtype=bool), truncated=truncated & False, cut=cut & False
    )
    found = count(found, more)
    np.testing.assert_allclose(found.recent[2], (2, 8 + 1, 8 + 0.5 * 1, 9))


def batches(number: int, steps: int, envs: int, limit: int, seed: int):
    """Random rewards, costs and ends of all kinds; an episode that goes on does so in the next batch."""
    rng, age = np.random.default_rng(seed), np.zeros(envs, np.int32)
    for _ in range(number):
        ages, ends = [], []
        for _ in range(steps):
            terminated, cut = rng.random((2, envs)) < 0.15
            ages.append(age)
            ends.append((terminated, cut | (age + 1 >= limit), cut & ~terminated))
            age = np.where(ends[-1][0] | ends[-1][1], 0, age + 1).astype(np.int32)
        terminated, truncated, cut = (np.array(each) for each in zip(*ends, strict=True))
        reward, cost = rng.normal(size=(steps, envs)), rng.random((steps, envs, 2))
        yield trajectories(
            reward=reward.astype(np.float32), cost=cost.astype(np.float32), terminated=terminated, truncated=truncated,
            cut=cut, age=np.array(ages),
        )  # fmt: skip


@pytest.mark.parametrize(("steps", "limit"), [(200, 7), (3, 7), (9, None)])
def test_they_are_those_of_a_loop_over_steps(steps, limit):
    """200 steps of 4 environments end more episodes than are remembered; 3 seldom any."""
    theirs = Episodes([0.9, 1.0], 4)
    mine = episodes.init(4, num_constraints=2)
    count = jax.jit(lambda mine, batch: episodes.count(mine, batch, jnp.array([0.9, 1.0])))
    for batch in batches(8, steps, 4, limit or 10**6, seed=steps):
        before = theirs.finished
        theirs.add(batch)
        mine = count(mine, batch)
        assert mine.finished == theirs.finished
        np.testing.assert_allclose(mine.running, theirs.running, rtol=1e-4, atol=1e-4)
        rows = np.arange(theirs.finished - len(theirs.recent), theirs.finished) % RECENT
        np.testing.assert_allclose(mine.recent[rows], np.array(theirs.recent).reshape(-1, 6), rtol=1e-4, atol=1e-4)
        if (means := theirs.means()) is not None:
            np.testing.assert_allclose(episodes.means(mine), means, rtol=1e-4, atol=1e-4)
            spread = np.std(np.array(theirs.recent).reshape(-1, 6)[:, 2:4], 0)
            np.testing.assert_allclose(episodes.cost_deviation(mine), spread, rtol=1e-3, atol=1e-4)
    assert (theirs.finished - before > RECENT) == (steps == 200)
