"""Action distributions: sample, mode, log-prob, entropy, KL; one number per state, summed over action dimensions."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from focops.core.fields import pytree_config, static

_LOG_2PI = float(np.log(2 * np.pi))


class DiagonalGaussian(NamedTuple):
    """Independent normal action dimensions; `log_std` does not depend on the state."""

    mean: Float[Array, "*batch A"]
    log_std: Float[Array, "*batch_or_none A"]

    @staticmethod
    def noise(key: Key[Array, ""], shape: tuple[int, ...], action_size: int) -> Float[Array, "*batch A"]:
        """The random numbers that `sample` needs, for a whole rollout at once."""
        return jax.random.normal(key, (*shape, action_size))

    def sample(self, noise: Float[Array, "*batch A"]) -> Float[Array, "*batch A"]:
        return self.mean + jnp.exp(self.log_std) * noise

    def mode(self) -> Float[Array, "*batch A"]:
        return self.mean

    def log_prob(self, action: Float[Array, "*batch A"]) -> Float[Array, "*batch"]:
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return -jnp.sum(0.5 * (z * z + _LOG_2PI) + self.log_std, -1)

    def entropy(self) -> Float[Array, "*batch"]:
        per_state = jnp.sum(self.log_std + 0.5 * (_LOG_2PI + 1), -1)
        return jnp.broadcast_to(per_state, self.mean.shape[:-1])

    def kl(self, other: Any) -> Float[Array, "*batch"]:
        """KL(self ‖ other), the other of the same kind."""
        log_ratio = self.log_std - other.log_std
        z = (self.mean - other.mean) * jnp.exp(-other.log_std)
        return jnp.sum(0.5 * (jnp.exp(2 * log_ratio) + z * z - 1) - log_ratio, -1)


class Categorical(NamedTuple):
    """One of A actions, from unnormalised log-probabilities."""

    logits: Float[Array, "*batch A"]

    @staticmethod
    def noise(key: Key[Array, ""], shape: tuple[int, ...], action_size: int) -> Float[Array, "*batch A"]:
        return jax.random.gumbel(key, (*shape, action_size))

    def sample(self, noise: Float[Array, "*batch A"]) -> Int[Array, "*batch"]:
        return jnp.argmax(self.logits + noise, -1)

    def mode(self) -> Int[Array, "*batch"]:
        return jnp.argmax(self.logits, -1)

    def log_prob(self, action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        return jnp.take_along_axis(jax.nn.log_softmax(self.logits), action[..., None], -1)[..., 0]

    def entropy(self) -> Float[Array, "*batch"]:
        log_p = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_p) * log_p, -1)

    def kl(self, other: Any) -> Float[Array, "*batch"]:
        """KL(self ‖ other), the other of the same kind."""
        log_p, log_q = jax.nn.log_softmax(self.logits), jax.nn.log_softmax(other.logits)
        return jnp.sum(jnp.exp(log_p) * (log_p - log_q), -1)


_NEVER = -1e9
"""The logit of what cannot be chosen: finite, so that its share in an entropy is 0·finite."""


@pytree_config
class MultiCategorical:
    """Independent choices of one of nvec[0], nvec[1], … actions; their logits side by side. They are computed as a
    `Categorical` with one more axis, padded to the longest."""

    logits: Float[Array, "*batch A"]
    nvec: tuple[int, ...] = static(())

    @staticmethod
    def noise(key: Key[Array, ""], shape: tuple[int, ...], action_size: int) -> Float[Array, "*batch A"]:
        return Categorical.noise(key, shape, action_size)

    def sample(self, noise: Float[Array, "*batch A"]) -> Int[Array, "*batch K"]:
        return Categorical(self._apart(self.logits + noise)).mode()

    def mode(self) -> Int[Array, "*batch K"]:
        return self._choices.mode()

    def log_prob(self, action: Int[Array, "*batch K"]) -> Float[Array, "*batch"]:
        return jnp.sum(self._choices.log_prob(action), -1)

    def entropy(self) -> Float[Array, "*batch"]:
        return jnp.sum(self._choices.entropy(), -1)

    def kl(self, other: Any) -> Float[Array, "*batch"]:
        """KL(self ‖ other), the other of the same kind."""
        return jnp.sum(self._choices.kl(other._choices), -1)

    @property
    def _choices(self) -> Categorical:
        return Categorical(self._apart(self.logits))

    def _apart(self, logits: Float[Array, "*batch A"]) -> Float[Array, "*batch K N"]:
        """A row for each choice, of as many places as the longest needs."""
        sizes = np.array(self.nvec)[:, None]
        place = np.arange(max(self.nvec))
        index = np.minimum(np.cumsum(sizes, 0) - sizes + place, sizes.sum() - 1)
        return jnp.where(place < sizes, logits[..., index], _NEVER)


Distribution = DiagonalGaussian | Categorical | MultiCategorical
