"""Random batches and small configs that the algorithms' tests share, so that they share compiled programs too."""

import jax.numpy as jnp
import numpy as np

from focops.core import normalize
from focops.core.spec import Constraint, Spec
from focops.core.types import Rollout


def spec(discrete: bool, m: int = 2, obs_size: int = 5) -> Spec:
    names = [Constraint(f"c{i}", 1.0 + i) for i in range(m)]
    return Spec(obs_size, 3, discrete, tuple(names), 50)


STATS = normalize.RunningStats(jnp.zeros(5), jnp.ones(5), jnp.float32(1))
"""Of observations that are normalised already."""
START = jnp.float32(0)
"""Progress before the first batch."""


def rollout(discrete: bool, steps: int = 64, envs: int = 2, seed: int = 0, m: int = 2) -> Rollout:
    rng = np.random.default_rng(seed)
    shape = (steps, envs)
    age = np.tile((np.arange(steps) % 50)[:, None], (1, envs))
    action = rng.integers(0, 3, shape) if discrete else rng.normal(size=(*shape, 3))
    f32 = lambda x: jnp.asarray(x, jnp.float32)
    obs = f32(rng.normal(size=(*shape, 5)))
    return Rollout(
        obs=obs,
        raw_obs=obs,
        action=jnp.asarray(action, jnp.int32) if discrete else f32(action),
        reward=f32(rng.normal(size=shape)),
        cost=f32(rng.random((*shape, m))),
        terminated=jnp.zeros(shape, bool),
        truncated=jnp.asarray(age == 49),
        cut=jnp.zeros(shape, bool),
        next_obs=f32(rng.normal(size=(*shape, 5))),
        age=jnp.asarray(age, jnp.int32),
    )
