"""A trained policy, used without the trainer."""

import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from focops.core import normalize
from focops.core import policy as core_policy
from focops.core.networks import Network
from focops.core.spec import Spec
from focops.deploy.export import Exported, exported
from focops.deploy.plain import numpy_policy
from focops.display.summary import costs_found, verdict
from focops.errors import UsageError
from focops.runs.files import write_atomically
from focops.runs.unpacking import refuse_pair


class MeanActionWarning(UserWarning):
    """Mean actions are asked of a policy whose mean action was evaluated, and not found within its limits."""


class Policy:
    """π_θ with its observation normaliser. `predict` takes raw observations."""

    def __init__(
        self,
        network: Network,
        params: core_policy.PolicyParams,
        stats: normalize.Stats,
        description: dict[str, Any],
        evaluation: dict[str, Any] | None = None,
    ):
        self.network, self.params, self.stats = network, params, stats
        self.description = description
        self.evaluation = evaluation
        """What the evaluation at the end of training found, as `policy` in summary.json; None if there was none."""
        self._warned = False
        self._numpy = numpy_policy(network, params, stats, description)
        self._low = np.array(description["action_low"] or -np.inf, np.float32)
        self._high = np.array(description["action_high"] or np.inf, np.float32)
        self.seed(0)
        size = description["action_size"]

        @jax.jit
        def act(key: Any, obs: Any, deterministic: Any) -> Any:
            distribution = core_policy.distribution(network, params, normalize.apply(stats, obs))
            sampled = distribution.sample(type(distribution).noise(key, obs.shape[:-1], size))
            return jnp.where(deterministic, distribution.mode(), sampled)

        self._act = act

    def replaced(self, params: core_policy.PolicyParams, stats: normalize.Stats, iteration: int) -> "Policy":
        """The same run's policy after another iteration; not evaluated."""
        return Policy(self.network, params, stats, self.description | {"iteration": iteration})

    def predict(self, obs: Any, *, deterministic: bool = False) -> np.ndarray:
        """Actions for one observation [O] or many [N, O], images also in their own shape: sampled, or the mean (most
        likely) action; continuous ones are clipped to the environment's bounds. MeanActionWarning, once, if the mean
        action was evaluated and not found within its limits. The action is all that is returned, without a state as in
        SB3: `action, _ = policy.predict(obs)` is refused."""
        if deterministic and not self._warned:
            self._warned = True
            self._warn_of_the_mean_action()
        obs = self._flat(obs)
        if np.isnan(obs).any():
            raise UsageError(f"the observation is NaN at index {tuple(map(int, np.argwhere(np.isnan(obs))[0]))}")
        if self._numpy is not None:  # JAX takes several times as long for one observation
            action = self._numpy.act(obs, deterministic, self._rng)
        else:
            self._key, key = jax.random.split(self._key)
            action = self.act(key, obs, deterministic)
            action = action if self.description["discrete"] else np.clip(action, self._low, self._high)
        refuse_pair(action)
        return action

    def export(self, path: Path | str, *, sampled: bool = False) -> Exported:
        """Write the policy as policy.onnx, one graph from raw observations to actions, or as policy.py, which needs
        NumPy alone; what is written was compared with this policy. With `sampled` the graph takes noise as a second
        input, and the file samples by default; else it is the mean action. MeanActionWarning as in `predict`."""
        path = Path(path)
        if not sampled:
            self._warn_of_the_mean_action()
        made = exported(self, path.suffix, sampled)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, made.data)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror or error}; name another file") from error
        return made

    def _flat(self, obs: Any) -> np.ndarray:
        """Observations [O] or [N, O]."""
        size, layout = self.description["obs_size"], self.description.get("layout")
        try:
            with np.errstate(over="ignore"):  # infinite is as good as very large
                obs = np.asarray(obs, np.float32)
        except (TypeError, ValueError):  # a mapping, or parts of several sizes
            obs = np.zeros(())
        image = tuple(self.description.get("image") or ())
        if image and obs.shape[-len(image) :] == image:
            obs = obs.reshape(*obs.shape[: -len(image)], size)
        if obs.ndim not in (1, 2) or obs.shape[-1] != size:
            hint = f": {layout}, flattened (gymnasium.spaces.flatten)" if layout else ""
            raise UsageError(f"observations have shape {obs.shape}; this policy takes [{size}] or [N, {size}]{hint}")
        return obs

    def act(self, key: Any, obs: np.ndarray, deterministic: bool) -> np.ndarray:
        """Actions as training gives them to the environment: not clipped."""
        return np.asarray(self._act(key, obs, deterministic))

    def require_fit(self, spec: Spec) -> None:
        """Refuse an environment of other observations or actions than the policy's."""
        spec.require_layout(self.description.get("layout"), f"this policy, of {self.description['task']},")
        for name in ("obs_size", "action_size", "discrete", "nvec"):
            found, own = getattr(spec, name), self.description.get(name)
            own = tuple(own) if isinstance(own, list) else own
            if found != own:
                raise UsageError(
                    f"the environment's {name} is {found}; this policy is of {self.description['task']}, where it is"
                    f" {own}: give the environment that it was trained in"
                )

    def _warn_of_the_mean_action(self) -> None:
        said = mean_action_outside(self.evaluation)
        if said:
            warnings.warn(
                f"{said}. Use sampled actions, predict(obs), or judge the mean action by more episodes: "
                " focops evaluate RUN --deterministic",
                MeanActionWarning,
                stacklevel=3,
            )

    def seed(self, seed: int) -> None:
        """Make the following sampled actions repeatable."""
        self._key, self._rng = jax.random.key(seed), np.random.default_rng(seed)


def mean_action_outside(evaluation: dict[str, Any] | None) -> str:
    """What an evaluation says of a mean action that it did not find within its limits; "" if it did, or has none. Also
    where every episode cost the same and that is within: no number of such episodes would give a verdict."""
    if evaluation is None or verdict(evaluation["mean_action"]) in ("satisfied", ""):
        return ""
    sampled, mean = evaluation["sampled"], evaluation["mean_action"]
    identical = all(low == high for low, high in mean["discounted_cost_interval"].values())
    if identical and all(cost <= mean["cost_limit"][name] for name, cost in mean["discounted_cost"].items()):
        return ""
    return (
        f"the mean action of this policy was not found within its limits in {mean['episodes']} episodes after training:"
        f" {', '.join(costs_found(mean))} (sampled actions: {', '.join(costs_found(sampled))})"
    )
