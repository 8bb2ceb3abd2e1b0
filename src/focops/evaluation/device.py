"""Episodes on an accelerator: R policies, each with its own normaliser, as one program of R·E simulations.

Physics is MJX's, in float32 (docs/gpu.md says what differs from the CPU). Episode i of a seed depends only on the
policy, the seed and i: not on the other policies, nor on how many episodes run at once.
"""

import dataclasses
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt32

from focops import envs
from focops.config import require_mjx
from focops.core import normalize, policy
from focops.core.networks import Network
from focops.core.policy import PolicyParams
from focops.core.spec import Constraint
from focops.envs.mjx import Impl, MjxTask
from focops.envs.tasks import SELF_CONTACTS
from focops.errors import UsageError
from focops.evaluation.protocol import UNSEEN
from focops.training.device.devices import Devices

log = logging.getLogger(__name__)

AT_ONCE = 16_384
"""Simulations that run side by side; more episodes run in several rounds."""


class Episodes(NamedTuple):
    """The first episode of every simulation, [R, E, ...]."""

    rows: Float[Any, "R E w"]
    """length, reward, m discounted costs, m undiscounted costs"""
    diverged: Bool[Any, "R E"]
    """Ended because the simulation became unstable."""
    overflow: Int[Any, "R"]
    """Simulations of the run's device whose contacts did not fit."""


class Policies(NamedTuple):
    """R policies, every array with R in front."""

    params: PolicyParams
    stats: normalize.Stats
    deterministic: Bool[Any, "R"]
    """Take the mean (most likely) actions."""


def device_episodes(
    task_name: str,
    constraints: Sequence[Constraint] | None,
    network: Network,
    policies: PolicyParams,
    stats: normalize.Stats,
    seeds: Sequence[int],
    episodes: int,
    deterministic: Any,
    impl: Impl | None = None,
    self_contacts: int = SELF_CONTACTS,
) -> np.ndarray:
    """(length, reward, m discounted costs, m undiscounted costs) of `episodes` episodes of each of R policies,
    [R, episodes, 2 + 2m].

    Every array of `policies` and `stats` has R in front. Every policy runs the same episodes: shared out evenly among
    `seeds`, as on the host, those of the first seed first. `deterministic` is one flag, or one for each policy.
    """
    return run_episodes(
        task_name, constraints, network, policies, stats, seeds, episodes, deterministic, impl, self_contacts
    ).rows


def run_episodes(
    task_name: str,
    constraints: Sequence[Constraint] | None,
    network: Network,
    policies: PolicyParams,
    stats: normalize.Stats,
    seeds: Sequence[int],
    episodes: int,
    deterministic: Any,
    impl: Impl | None = None,
    self_contacts: int = SELF_CONTACTS,
) -> Episodes:
    """`device_episodes`, with what went wrong in them."""
    require_mjx(task_name)
    if episodes < 1 or episodes % len(seeds):
        raise UsageError(f"episodes is {episodes}; it must be a multiple of the {len(seeds)} seed(s), and ≥ 1")
    task = envs.find(task_name)
    assert task is not None
    constraints = task.constraints if constraints is None else constraints
    runs = stats.count.shape[0]
    rounds = -(-episodes // max(1, AT_ONCE // runs))
    num = -(-episodes // rounds)
    devices = Devices(None, runs)
    env = MjxTask.of(task, None, impl, False, self_contacts, devices.count > 1)
    arrays = devices.copied(env.arrays(devices.share * num))
    run = devices.compiled(_episodes, _Constant(env, network), arrays)
    # the last run's copies are the padding
    spread = lambda tree: devices.spread(jax.tree.map(lambda x: np.stack(devices.filled([*np.asarray(x)])), tree))
    given = spread(Policies(policies, stats, np.broadcast_to(np.asarray(deterministic, bool), runs)))
    discounts = np.array([c.discount for c in constraints], np.float32)
    seed, index = _numbered(seeds, episodes, rounds * num)
    found = []
    for first in range(0, rounds * num, num):
        which = slice(first, first + num)
        found.append(run(given, *spread(_repeat((seed[which], index[which], discounts), runs))))
    joined = _joined(jax.device_get(found), runs, episodes)
    if joined.overflow.any():
        log.warning(
            "%s: %d simulations had more contacts than there is room for (%d of the robot with itself); those beyond it"
            " were ignored. Evaluate with --backend cpu, which has no limit",
            task.name, int(joined.overflow.max()), self_contacts,
        )  # fmt: skip
    return joined


def _numbered(seeds: Sequence[int], episodes: int, padded: int) -> tuple[np.ndarray, np.ndarray]:
    """Each episode's seed [padded, 2] as low and high word, and its index among those of its seed [padded]."""
    each = episodes // len(seeds)
    whole = UNSEEN + np.repeat(np.array(seeds, np.uint64), each)
    index = np.tile(np.arange(each, dtype=np.int32), len(seeds))
    words = np.stack([whole & np.uint64(0xFFFFFFFF), whole >> np.uint64(32)], -1).astype(np.uint32)
    filling = np.arange(padded) % episodes
    return words[filling], index[filling]


def _repeat(tree: Any, runs: int) -> Any:
    return jax.tree.map(lambda x: np.broadcast_to(x, (runs, *x.shape)), tree)


def _joined(rounds: Sequence[Episodes], runs: int, episodes: int) -> Episodes:
    """All rounds as one, without the padding."""
    join = lambda name: np.concatenate([getattr(each, name) for each in rounds], 1)[:runs, :episodes]
    overflow = np.max([each.overflow for each in rounds], 0)[:runs]
    return Episodes(join("rows").astype(np.float64), join("diverged"), overflow)


@dataclass(frozen=True)
class _Constant:
    """What is constant in the compiled function."""

    env: MjxTask
    network: Network

    def using(self, arrays: Any) -> "_Constant":
        return dataclasses.replace(self, env=self.env.using(arrays))


def _episodes(
    constant: _Constant,
    given: Policies,
    seed: UInt32[Array, "R E 2"],
    index: Int[Array, "R E"],
    discounts: Float[Array, "R m"],
) -> Episodes:
    """The first episode of every simulation; a simulation goes on after it, but is not counted."""
    env, network = constant.env, constant.network
    runs, num = index.shape
    grouped = lambda x: x.reshape(runs, num, *x.shape[1:])
    keys = jax.vmap(jax.vmap(lambda words, i: jax.random.fold_in(jax.random.wrap_key_data(words), i)))(seed, index)
    act = jax.vmap(functools.partial(_act, network, env.spec.action_size), (0, 0, 0, None))

    def step(carry: Any, t: Int[Array, ""]) -> Any:
        data, sims, rows, running, diverged = carry
        action = act(given, grouped(sims.obs), keys, t)
        data, sims, out = env.step(data, sims, action.reshape(runs * num, *action.shape[2:]))
        out = jax.tree.map(grouped, out)
        discounted = (discounts ** t.astype(jnp.float32))[:, None] * out.cost
        paid = [jnp.ones_like(out.reward)[..., None], out.reward[..., None], discounted, out.cost]
        rows = rows + jnp.where(running[..., None], jnp.concatenate(paid, -1), 0.0)
        diverged = diverged | (running & out.cut)  # nothing else cuts an episode here
        return (data, sims, rows, running & ~(out.terminated | out.truncated), diverged), None

    sims = env.begin(seed.reshape(-1, 2), index.reshape(-1), num)
    nothing = jnp.zeros((runs, num), bool)
    start = (env.load(sims), sims, jnp.zeros((runs, num, 2 + 2 * discounts.shape[1])), ~nothing, nothing)
    (data, _, rows, _, diverged), _ = jax.lax.scan(step, start, jnp.arange(env.task.time_limit))
    return Episodes(rows, diverged, jnp.broadcast_to(env.overflow(data), (runs,)))


def _act(
    network: Network, action_size: int, given: Policies, obs: Float[Array, "E O"], keys: Any, t: Int[Array, ""]
) -> Array:
    """One policy's actions, as `Policy.act`."""
    chosen = policy.distribution(network, given.params, normalize.apply(given.stats, obs))
    noise = jax.vmap(lambda key: type(chosen).noise(jax.random.fold_in(key, t), (), action_size))(keys)
    return jnp.where(given.deterministic, chosen.mode(), chosen.sample(noise))
