"""The tail of episodes' costs, against sums over whole episodes."""

import jax
import jax.numpy as jnp
import numpy as np

from focops.core import tail
from tests.core.processes import Sampler, walk

DISCOUNT = jnp.array([0.95])
pay = jax.jit(tail.pay)


def episodes(batches):
    """(γ^t c_t summed, samples' places) of every episode that ran from its start to its end in the batches."""
    join = lambda name: np.concatenate([np.asarray(getattr(b, name)) for b in batches])
    age, cost, ended = join("age"), join("cost")[..., 0], join("terminated") | join("truncated")
    for e in range(age.shape[1]):
        starts = np.flatnonzero(age[:, e] == 0)
        for first in starts:
            after = np.flatnonzero(ended[first:, e])
            if after.size:
                rows = np.arange(first, first + after[0] + 1)
                yield e, rows, float((0.95 ** np.arange(len(rows)) * cost[rows, e]).sum())


def test_what_an_episode_has_paid_is_kept_across_batches():
    sampler = Sampler(walk(end=0.02, time_limit=60), 4, 0)
    batches = [jax.tree.map(jnp.asarray, sampler.batch(16)) for _ in range(30)]
    memory, before = tail.init(1), []
    for batch in batches:
        memory, paid = pay(memory, batch, DISCOUNT)
        before.append(paid[..., 0])
    before, cost = np.concatenate(before), np.concatenate([b.cost for b in batches])[..., 0]
    for e, rows, _ in episodes(batches):
        so_far = np.cumsum(0.95 ** np.arange(len(rows)) * cost[rows, e])
        np.testing.assert_allclose(before[rows, e], [0, *so_far[:-1]], atol=1e-4)


def test_the_tails_value_moves_by_the_cost_critics_differences_inside_the_tail_only():
    """Along a path that stays on one side of the threshold: W_{t+1} − W_t = γ^t (c_t + γ V_{t+1} − V_t), or 0."""
    rng = np.random.default_rng(0)
    cost, value = rng.random(20), rng.random(21) * 5
    paid = np.concatenate([[0], np.cumsum(0.95 ** np.arange(20) * cost)])
    total = paid + 0.95 ** np.arange(21) * value
    for threshold in (total.min() - 0.1, total.max() + 0.1):
        inside = tail.bound_for(
            jnp.asarray(paid, jnp.float32)[:, None, None], jnp.asarray(value, jnp.float32)[None, :, None],
            jnp.arange(21)[:, None], DISCOUNT, jnp.array([threshold], jnp.float32),
        )  # fmt: skip
        w = np.maximum(total - threshold, 0)
        delta = 0.95 ** np.arange(20) * (cost + 0.95 * value[1:] - value[:-1])
        np.testing.assert_allclose(np.diff(w), np.asarray(inside)[:-1, 0, 0] * delta, atol=1e-6)


def test_risks_are_those_of_the_latest_whole_episodes():
    sampler = Sampler(walk(end=0.05, time_limit=60), 4, 0, stagger=False)
    batches, memory = [], tail.init(1)
    risk = jax.jit(tail.risk)
    assert all((np.asarray(x) == 0).all() for x in risk(memory, 0.8))
    for n in (1, 3, 60):
        for _ in range(n):
            batches.append(jax.tree.map(jnp.asarray, sampler.batch(16)))
            memory, _ = pay(memory, batches[-1], DISCOUNT)
        totals = np.sort([t for _, _, t in episodes(batches)])
        assert memory.num_episodes == len(totals)
        if len(totals) <= tail.NUM_EPISODES:
            found = risk(memory, 0.8)
            value = totals[int(np.ceil(0.8 * len(totals))) - 1]
            beyond = value + np.maximum(totals - value, 0).mean() / 0.2
            np.testing.assert_allclose(np.ravel(found), [totals.mean(), value, beyond], rtol=1e-3, atol=1e-3)
    assert len(totals) > tail.NUM_EPISODES


def test_at_level_0_the_worst_episodes_are_all_of_them():
    memory = tail.init(1)._replace(
        episodes=jnp.arange(float(tail.NUM_EPISODES))[:, None], num_episodes=jnp.int32(tail.NUM_EPISODES)
    )
    found = tail.risk(memory, 0.0)
    np.testing.assert_allclose(found.beyond, found.mean, rtol=1e-5)
