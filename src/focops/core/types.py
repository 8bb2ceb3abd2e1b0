"""The types that all parts share: transitions, batches of them, vectorised environments."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from focops.core.spec import Spec


class Step(NamedTuple):
    """What E environments return for E actions. `next_obs` is the true successor, also where the episode ends."""

    reward: Float[np.ndarray, "E"]
    cost: Float[np.ndarray, "E m"]
    terminated: Bool[np.ndarray, "E"]
    truncated: Bool[np.ndarray, "E"]
    cut: Bool[np.ndarray, "E"]
    """Truncated by us (staggering, an unstable simulation), not by the environment: the cost of the whole episode is
    unknown."""
    next_obs: Float[np.ndarray, "E O"]


class Trajectories(NamedTuple):
    """T steps of E environments under one policy, as they are collected. NumPy or JAX arrays."""

    obs: Float[Array, "T E O"]
    """Normalised, as the policy saw it."""
    raw_obs: Float[Array, "T E O"]
    """The observation before normalisation."""
    action: Float[Array, "T E A"] | Int[Array, "T E"] | Int[Array, "T E K"]
    reward: Float[Array, "T E"]
    cost: Float[Array, "T E m"]
    terminated: Bool[Array, "T E"]
    truncated: Bool[Array, "T E"]
    cut: Bool[Array, "T E"]
    """Truncated by us, not by the environment."""
    raw_next_obs: Float[Array, "T E O"]
    """True successor: the `raw_obs` one step later, unless the episode ends."""
    age: Int[Array, "T E"]
    """Steps since the start of the sample's episode; 0 for its first sample."""


class Rollout(NamedTuple):
    """`Trajectories` as an algorithm's update sees them: the successor is normalised."""

    obs: Float[Array, "T E O"]
    raw_obs: Float[Array, "T E O"]
    action: Float[Array, "T E A"] | Int[Array, "T E"] | Int[Array, "T E K"]
    reward: Float[Array, "T E"]
    cost: Float[Array, "T E m"]
    terminated: Bool[Array, "T E"]
    truncated: Bool[Array, "T E"]
    cut: Bool[Array, "T E"]
    next_obs: Float[Array, "T E O"]
    """Normalised true successor: the `obs` one step later, unless the episode ends."""
    age: Int[Array, "T E"]


@runtime_checkable
class VectorEnv(Protocol):
    """E environments stepped together, on the host. Episodes restart within the step that ends them."""

    spec: Spec
    num_envs: int
    obs: Float[np.ndarray, "E O"]
    """float32; what the policy acts on next (after a reset where an episode has just ended)."""
    age: Int[np.ndarray, "E"]
    """int32; steps since the start of the episode that `obs` belongs to."""
    diverged: int
    """How many episodes a non-finite simulation has ended so far."""

    def reset(self, seed: int) -> None:
        """Start all environments from a seed; the same seed gives the same episodes."""
        ...

    def restart(self) -> None:
        """Start a new episode in every environment, staggered as the first ones."""
        ...

    def step(self, action: np.ndarray) -> Step: ...

    def state(self) -> dict[str, np.ndarray]:
        """Everything that `restore` needs to resume exactly, as named arrays."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None: ...

    def close(self) -> None: ...


Params = Any
"""A pytree of arrays."""
