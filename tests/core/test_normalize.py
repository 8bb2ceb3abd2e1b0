"""Running statistics of observations, and what is normalised with them."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from focops.core import normalize
from focops.core.spec import Spec


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 2**31))
def test_running_statistics_are_those_of_all_rows_whatever_the_pieces(pieces, seed):
    rows = np.random.default_rng(seed).normal(5.0, [0.1, 3.0], (sum(pieces), 2)).astype(np.float32)
    stats = normalize.init(2)
    for piece in np.split(rows, np.cumsum(pieces)[:-1]):
        stats = normalize.observe(stats, jnp.asarray(piece))
    np.testing.assert_allclose(stats.mean, rows.mean(0), rtol=1e-4)
    np.testing.assert_allclose(stats.variance, rows.var(0), rtol=2e-3, atol=1e-4)
    assert stats.count == len(rows)


def test_a_million_observations_keep_their_standard_deviation_in_float32():
    rng = np.random.default_rng(0)
    stats = normalize.init(1)
    rows = rng.normal(100.0, 2.0, (20_000, 50, 1)).astype(np.float32)
    stats, _ = jax.lax.scan(lambda s, x: (normalize.observe(s, x), None), stats, jnp.asarray(rows))
    np.testing.assert_allclose(np.sqrt(stats.variance), rows.std(), rtol=1e-3)


def test_normalised_observations_are_floored_and_clipped():
    stats = normalize.RunningStats(jnp.array([1.0, 1.0]), jnp.array([4.0, 0.0]), jnp.array(10.0))
    obs = jnp.array([[3.0, 1.001], [100.0, 2.0]])
    # (3 − 1)/2 = 1; 0.001/0.01 = 0.1; the rest beyond ±5
    np.testing.assert_allclose(normalize.apply(stats, obs), [[1.0, 0.1], [5.0, 5.0]], rtol=1e-3)


def test_images_are_scaled_by_their_range_and_have_no_statistics():
    stats = normalize.of(Spec(4, 2, True, (), None, image=(2, 2)))
    seen = normalize.observe(stats, jnp.full((3, 4), 255.0))
    np.testing.assert_allclose(normalize.apply(seen, jnp.array([0.0, 51.0, 102.0, 255.0])), [0, 0.2, 0.4, 1], rtol=1e-6)
    assert jax.tree.leaves(seen) == []
