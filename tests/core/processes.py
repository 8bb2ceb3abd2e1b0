"""Cost processes whose J_C is known exactly, sampled as batches of E environments.

An episode has a kind, drawn at its start, and runs through its ages; what it costs and how likely it ends depends on
kind and age alone. That covers fixed lengths, constant, bursty and bimodal ends. `Chain`s move among a few states.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from focops.core.types import Rollout


class Process(Protocol):
    """States are whole numbers; the observation is the state."""

    @property
    def time_limit(self) -> int: ...

    def start(self, rng: np.random.Generator, number: int) -> np.ndarray: ...

    def step(self, rng: np.random.Generator, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(cost, whether the episode ends here, state after)"""
        ...

    def cost_return(self, discount: float) -> float: ...

    def value(self, discount: float) -> np.ndarray:
        """V_C of every state."""
        ...


@dataclass(frozen=True)
class Kinds:
    """Episodes of several kinds, a share of all each; `cost` and `end` (chance of ending at that step) are
    [kinds, time_limit]. The last age always ends."""

    share: np.ndarray
    cost: np.ndarray
    end: np.ndarray
    noise: float = 0.0

    @property
    def time_limit(self) -> int:
        return self.cost.shape[1]

    def start(self, rng: np.random.Generator, number: int) -> np.ndarray:
        return rng.choice(len(self.share), number, p=self.share) * self.time_limit

    def step(self, rng: np.random.Generator, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        cost = self.cost.ravel()[state] + self.noise * rng.standard_normal(len(state))
        return cost, rng.random(len(state)) < self.end.ravel()[state], state + 1

    def cost_return(self, discount: float) -> float:
        return float(self.share @ self.value(discount).reshape(self.cost.shape)[:, 0])

    def value(self, discount: float) -> np.ndarray:
        """Backward recursion over the ages."""
        value = np.zeros(self.cost.shape)
        after = np.zeros(len(self.share))
        for age in reversed(range(self.time_limit)):
            value[:, age] = after = self.cost[:, age] + discount * (1 - self.end[:, age]) * after
        return value.ravel()


def kinds(*lengths: "tuple[float, dict[int, float], float]", time_limit: int = 1000) -> Kinds:
    """Kinds as (share, chance of each length, cost per step)."""
    end = np.zeros((len(lengths), time_limit))
    for row, (_, chances, _) in zip(end, lengths, strict=True):
        left = 1.0
        for length, chance in sorted(chances.items()):
            row[length - 1] = min(1.0, chance / left)
            left -= chance
    end[:, -1] = 1.0
    cost = np.repeat(np.array([[c] for _, _, c in lengths]), time_limit, 1)
    return Kinds(np.array([share for share, _, _ in lengths]), cost, end)


@dataclass(frozen=True)
class Chain:
    """A Markov chain on S states with costs, per-state probabilities of ending, and a time limit."""

    move: np.ndarray
    cost: np.ndarray
    end: np.ndarray
    time_limit: int
    noise: float = 0.2

    @functools.cached_property
    def _cumulative(self) -> np.ndarray:
        return np.cumsum(self.move, 1)

    def start(self, rng: np.random.Generator, number: int) -> np.ndarray:
        return np.zeros(number, int)

    def step(self, rng: np.random.Generator, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        number = len(state)
        cost = self.cost[state] + self.noise * rng.standard_normal(number)
        after = np.minimum((rng.random(number)[:, None] > self._cumulative[state]).sum(1), len(self.cost) - 1)
        return cost, rng.random(number) < self.end[state], after

    def cost_return(self, discount: float) -> float:
        """Backward recursion over the whole horizon, from state 0."""
        value = np.zeros(len(self.cost))
        for _ in range(self.time_limit):
            value = self.cost + discount * (1 - self.end) * (self.move @ value)
        return float(value[0])

    def value(self, discount: float) -> np.ndarray:
        """V_C without the time limit, what a perfect critic that sees no clock would say."""
        if discount == 1:  # such a critic has no finite value
            return np.zeros(len(self.cost))
        keep = discount * (1 - self.end)[:, None] * self.move
        return np.linalg.solve(np.eye(len(self.cost)) - keep, self.cost)


class Sampler:
    """Batch after batch of R·E copies of a process, in R groups that have nothing to do with one another: arrays are
    [R, T, E], or [T, E] with `groups` None.

    `own_truncation`: the environment ends episodes by truncating them, as one with a time limit of its own does;
    otherwise it terminates them, but for the time limit. Staggered first episodes are cut.
    """

    def __init__(
        self,
        process: Process,
        num_envs: int,
        seed: int,
        stagger: bool = True,
        groups: int | None = None,
        own_truncation: bool = False,
    ):
        self.process, self.rng = process, np.random.default_rng(seed)
        self.num_envs, self.groups, self.own_truncation = num_envs, groups, own_truncation
        number, limit = num_envs * (groups or 1), process.time_limit
        self.state, self.age = process.start(self.rng, number), np.zeros(number, int)
        first = np.maximum(np.arange(1, num_envs + 1) * limit // num_envs, 1) if stagger else np.full(num_envs, limit)
        self.horizon = np.tile(first, groups or 1)

    def batch(self, steps: int, scale: float = 1.0) -> Rollout:
        """T steps of each; costs times `scale`."""
        process, rng, limit = self.process, self.rng, self.process.time_limit
        rows = []
        for _ in range(steps):
            state, age = self.state, self.age
            cost, end, after = process.step(rng, state)
            over = end | (age + 1 >= self.horizon)
            rows.append((state, age, cost, end, over, after))
            self.state, self.age = after, age + 1
            if over.any():
                self.state = np.where(over, process.start(rng, len(over)), after)
                self.age = np.where(over, 0, age + 1)
                self.horizon = np.where(over, limit, self.horizon)
        state, age, cost, end, over, after = (self._grouped(np.array(each)) for each in zip(*rows, strict=True))
        at_limit = age + 1 >= limit
        terminated = end & ~at_limit & (not self.own_truncation)
        number = lambda x: x[..., None].astype(np.float32)
        return Rollout(
            obs=number(state),
            raw_obs=number(state),
            action=np.zeros((*age.shape, 1), np.float32),
            reward=np.zeros(age.shape, np.float32),
            cost=number(scale * cost),
            terminated=terminated,
            truncated=over & ~terminated,
            cut=over & ~end & ~at_limit,
            next_obs=number(np.where(over, state, after)),
            age=age.astype(np.int32),
        )

    def batches(self, number: int, steps: int) -> Iterator[Rollout]:
        for _ in range(number):
            yield self.batch(steps)

    def _grouped(self, x: np.ndarray) -> np.ndarray:
        return x if self.groups is None else x.reshape(len(x), self.groups, self.num_envs).swapaxes(0, 1)


def walk(num_states: int = 5, end: float = 0.0, time_limit: int = 1000) -> Chain:
    """Drifts from a cheap start to expensive states: its cost depends on age, so a biased age shows."""
    move = np.zeros((num_states, num_states))
    for s in range(num_states):
        move[s, min(s + 1, num_states - 1)] += 0.1
        move[s, max(s - 1, 0)] += 0.05
        move[s, s] += 0.85
    return Chain(move, np.linspace(0.0, 2.0, num_states), np.full(num_states, end), time_limit)
