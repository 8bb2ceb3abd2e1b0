"""Small cost processes whose J_C is known exactly, sampled as staggered batches of E environments."""

from dataclasses import dataclass

import numpy as np

from focops.core.types import Rollout


@dataclass
class Chain:
    """A Markov chain on S states with costs, per-state probabilities of ending, and a time limit."""

    move: np.ndarray
    cost: np.ndarray
    end: np.ndarray
    time_limit: int
    noise: float = 0.5

    def cost_return(self, discount: float) -> float:
        """Backward recursion over the whole horizon, from state 0."""
        value = np.zeros(len(self.cost))
        for _ in range(self.time_limit):
            value = self.cost + discount * (1 - self.end) * (self.move @ value)
        return float(value[0])

    def value(self, discount: float) -> np.ndarray:
        """V_C without the time limit, what a perfect critic that sees no clock would say."""
        keep = discount * (1 - self.end)[:, None] * self.move
        return np.linalg.solve(np.eye(len(self.cost)) - keep, self.cost)


class Sampler:
    """Batch after batch of E staggered copies of a chain; observations are one-hot states."""

    def __init__(self, chain: Chain, num_envs: int, seed: int, stagger: bool = True):
        self.chain, self.rng = chain, np.random.default_rng(seed)
        self.state = np.zeros(num_envs, int)
        self.age = np.zeros(num_envs, int)
        limit = chain.time_limit
        self.cut = (np.arange(1, num_envs + 1) * limit) // num_envs if stagger else np.full(num_envs, limit)
        self.cut = np.maximum(self.cut, 1)

    def batch(self, steps: int) -> Rollout:
        chain, rng, n = self.chain, self.rng, len(self.state)
        rows = []
        for _ in range(steps):
            state, age = self.state.copy(), self.age.copy()
            cost = chain.cost[state] + chain.noise * rng.standard_normal(n)
            cumulative = np.cumsum(chain.move[state], 1)
            after = np.minimum((rng.random(n)[:, None] > cumulative).sum(1), len(chain.cost) - 1)
            terminated = rng.random(n) < chain.end[state]
            truncated = ~terminated & (age + 1 >= self.cut)
            ended = terminated | truncated
            rows.append((state, age, cost, terminated, truncated, after))
            self.state = np.where(ended, 0, after)
            self.age = np.where(ended, 0, age + 1)
            self.cut[ended] = chain.time_limit
        state, age, cost, terminated, truncated, after = map(np.array, zip(*rows, strict=True))
        one_hot = np.eye(len(chain.cost), dtype=np.float32)
        return Rollout(
            obs=one_hot[state],
            action=np.zeros((steps, n, 1), np.float32),
            reward=np.zeros((steps, n), np.float32),
            cost=cost[..., None].astype(np.float32),
            terminated=terminated,
            truncated=truncated,
            next_obs=one_hot[after],
            age=age.astype(np.int32),
            progress=np.float32(0),
        )


def walk(num_states: int = 5, end: float = 0.0, time_limit: int = 1000) -> Chain:
    """Drifts from a cheap start to expensive states: its cost depends on age, so a biased age shows."""
    move = np.zeros((num_states, num_states))
    for s in range(num_states):
        move[s, min(s + 1, num_states - 1)] += 0.1
        move[s, max(s - 1, 0)] += 0.05
        move[s, s] += 0.85
    return Chain(move, np.linspace(0.0, 2.0, num_states), np.full(num_states, end), time_limit)
