"""The tail of episodes' costs, against sums over whole episodes."""

import jax
import jax.numpy as jnp
import numpy as np

from focops.core import tail
from tests.core.processes import Sampler, walk

DISCOUNT = jnp.array([0.95])
pay, beyond = jax.jit(tail.pay), jax.jit(tail.beyond)


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


def test_tail_costs_sum_to_what_an_episode_costs_beyond_the_threshold_also_across_batches():
    sampler = Sampler(walk(end=0.02, time_limit=60), 4, 0)
    batches = [jax.tree.map(jnp.asarray, sampler.batch(16)) for _ in range(30)]
    memory, threshold, tails = tail.init(1), jnp.array([6.0]), []
    for batch in batches:
        memory, before = pay(memory, batch, DISCOUNT, jnp.float32(60))
        tails.append(beyond(batch.cost, before, batch.age, DISCOUNT, threshold))
    tails = np.concatenate(tails)[..., 0]
    found = [(0.95 ** np.arange(len(rows)) * tails[rows, e]).sum() for e, rows, _ in episodes(batches)]
    expected = [max(total - 6.0, 0.0) for _, _, total in episodes(batches)]
    assert 5 < np.sum(np.array(expected) > 0) < len(expected)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_the_value_at_risk_is_the_quantile_of_the_latest_whole_episodes():
    sampler = Sampler(walk(end=0.05, time_limit=60), 4, 0, stagger=False)
    batches, memory = [], tail.init(1)
    highest = jnp.array([100.0])
    assert tail.value_at_risk(memory, 0.8, highest)[0] == 100.0
    for n in (1, 30):
        for _ in range(n):
            batches.append(jax.tree.map(jnp.asarray, sampler.batch(16)))
            memory, _ = pay(memory, batches[-1], DISCOUNT, jnp.float32(60))
        totals = sorted(t for _, _, t in episodes(batches))
        assert memory.num_episodes == len(totals)
        if len(totals) <= tail.NUM_EPISODES:
            expected = totals[int(np.ceil(0.8 * len(totals))) - 1]
            np.testing.assert_allclose(tail.value_at_risk(memory, 0.8, highest)[0], max(expected, 0), rtol=1e-4)
    assert tail.value_at_risk(memory, 0.8, jnp.array([0.5]))[0] == 0.5
