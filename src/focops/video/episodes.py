"""Episodes as pictures with what was paid until then: those that `focops evaluate RUN --episodes N --seeds S` runs."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from focops import envs
from focops.algorithms import is_constrained
from focops.config import TrainConfig
from focops.core.spec import Spec
from focops.envs.tasks import Task
from focops.errors import RunError, UsageError
from focops.evaluation import host
from focops.evaluation.protocol import UNSEEN
from focops.runs.policy import Policy
from focops.training.host import make_envs

_DEFAULT_RATE = 30.0
"""Steps shown in a second, of an environment that does not say how many."""


class Asked(NamedTuple):
    """Which episodes."""

    episodes: int
    seed: int
    deterministic: bool
    steps: int | None
    """Of each, at most."""


class Moment(NamedTuple):
    """A step of an episode: the state before it, and the sums until then. The last has those of the whole episode."""

    episode: int
    step: int
    picture: np.ndarray
    """[height, width, 3], bytes"""
    sums: np.ndarray
    """Reward, m discounted costs, m undiscounted costs."""
    is_last: bool


class Filmed(Protocol):
    """Episodes that can be drawn."""

    spec: Spec
    rate: float
    """Steps in a second of real time."""
    total: int
    """Steps in all, or at most."""

    def moments(self, every: int) -> Iterator[Moment]:
        """The first, every so many, and the last of each episode."""
        ...

    def close(self) -> None: ...


class FilmedTask:
    """One of our tasks. The episodes are run side by side first, as in an evaluation; then they are drawn."""

    def __init__(self, policy: Policy, config: TrainConfig, task: Task, asked: Asked, size: tuple[int, int]) -> None:
        from focops.envs.scene import Scene
        from focops.envs.simulator import pictures_per_second

        self._scene = Scene(task, *size)
        env: Any = make_envs(config, asked.episodes)
        self.spec, self.rate = env.spec, pictures_per_second(task.robot, env.model)
        policy.require_fit(env.spec)
        watched: Any = _Watched(env)
        host.run_episodes(policy, watched, asked.seed, asked.episodes, asked.deterministic, max_steps=asked.steps)
        self._qpos = np.stack(watched.qpos)
        self._paid = np.stack(watched.paid)
        ended = np.stack(watched.ended)
        self._lengths = np.where(ended.any(0), ended.argmax(0) + 1, len(ended))
        self.total = int(self._lengths.sum())

    def moments(self, every: int) -> Iterator[Moment]:
        for episode, length in enumerate(self._lengths.tolist()):
            self._scene.restart()
            sums = _sums(self._paid[:length, episode], self.spec)
            for step in _shown(length, every):
                picture = self._scene.draw(self._qpos[min(step, length - 1), episode])
                yield Moment(episode, step, picture, sums[step], step == length)

    def close(self) -> None:
        self._scene.close()


class _Watched:
    """Environments of a task that remember each step: joint positions before it, and what it paid."""

    def __init__(self, env: Any) -> None:
        self._env, self.qpos, self.paid, self.ended = env, [], [], []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, action: np.ndarray) -> Any:
        self.qpos.append(self._env.qpos.copy())
        step = self._env.step(action)
        self.paid.append(np.concatenate([step.reward[:, None], step.cost], 1))
        self.ended.append(step.terminated | step.truncated)
        return step


class FilmedEnv:
    """A Gymnasium environment, drawn by itself while its episodes are run, one after another."""

    def __init__(self, policy: Policy, config: TrainConfig, asked: Asked) -> None:
        from focops.envs.gymnasium import spec_of
        from focops.envs.local import LocalEnvs
        from focops.envs.names import Opening

        if config.env_python is not None:
            raise UsageError(
                f"{config.task} runs under another Python ({config.env_python}), from which no pictures come: install"
                " it in this one, and set env_python in the run's config.json to null"
            )
        given, limits = config.given, config.cost_limit
        opening = Opening(
            config.task if given.env is None else given.env,
            config.cost if given.cost is None else given.cost,
            is_constrained(config.algorithm),
            tuple(limits) if isinstance(limits, dict) else (),
            render=True,
        )
        self._envs = LocalEnvs(opening, timeout=config.env_timeout)
        self.spec = spec_of(opening.name, self._envs.description, limits, config.cost_discount)
        policy.require_fit(self.spec)
        self._env, self._name = self._envs.envs[0].env, opening.name
        self.rate = float(self._env.metadata.get("render_fps") or _DEFAULT_RATE)
        self._policy, self._asked = policy, asked
        limit = min(asked.steps or host.MAX_STEPS, self.spec.time_limit or host.MAX_STEPS)
        self._most, self.total = limit, limit * asked.episodes

    def moments(self, every: int) -> Iterator[Moment]:
        _, key = jax.random.split(jax.random.key(self._asked.seed))  # of the first round of episodes
        for episode in range(self._asked.episodes):
            yield from self._episode(episode, key, every)

    def _episode(self, episode: int, key: Any, every: int) -> Iterator[Moment]:
        from focops.envs.gymnasium import episode_seed

        paid, picture, ended, step = [], np.zeros(0), False, 0
        rows = np.zeros((self._asked.episodes, self.spec.obs_size), np.float32)  # as in an evaluation of so many
        rows[episode] = self._envs.begin([0], [episode_seed(UNSEEN + self._asked.seed, episode, 0)], 0)[0]
        while not ended and step < self._most:
            if step % every == 0:
                picture = self._picture()
                yield Moment(episode, step, picture, _sums(np.array(paid), self.spec)[-1], False)
            action = self._policy.act(jax.random.fold_in(key, step), rows, self._asked.deterministic)
            obs, reward, cost, terminated, truncated = self._envs.step(action[episode][None], step)
            rows[episode] = obs[0]
            paid.append([reward[0], *cost[0]])
            ended, step = bool(terminated[0] or truncated[0]), step + 1
        yield Moment(episode, step, self._picture(), _sums(np.array(paid), self.spec)[-1], True)

    def _picture(self) -> np.ndarray:
        from focops.envs import gl

        try:
            with gl.chosen_for_environments():
                picture = np.asarray(self._env.render())
        except Exception as error:
            advice = f". {gl.INSTALL}" if "OpenGL" in str(error) else ""
            raise RunError(f"{self._name} raised {type(error).__name__}: {error} in render{advice}") from error
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise RunError(
                f"{self._name} rendered {picture.dtype}{list(picture.shape)}: it must be a picture of bytes,"
                " [height, width, 3]"
            )
        return picture

    def close(self) -> None:
        self._envs.close(0)


def filmed(policy: Policy, config: TrainConfig, asked: Asked, size: tuple[int, int]) -> Filmed:
    task = envs.find(config.task) if config.given.env is None else None
    return FilmedEnv(policy, config, asked) if task is None else FilmedTask(policy, config, task, asked, size)


def _sums(paid: np.ndarray, spec: Spec) -> np.ndarray:
    """Sums before each of T steps and after the last, [T + 1, 1 + 2m], of rewards and costs [T, 1 + m]."""
    paid = paid.reshape(-1, 1 + len(spec.constraints))
    discounts = np.array([each.discount for each in spec.constraints])
    discounted = discounts ** np.arange(len(paid))[:, None] * paid[:, 1:]
    rows = np.concatenate([paid[:, :1], discounted, paid[:, 1:]], 1)
    return np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, 0)])


def _shown(length: int, every: int) -> list[int]:
    return [*range(0, length, every), length]
