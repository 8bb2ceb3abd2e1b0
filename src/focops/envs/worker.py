"""The program of a worker process, which steps some of a vector's environments.

It is run as a script, also by interpreters that have neither focops nor JAX: Python 3.8 to 3.13 with NumPy, and gym
(from 0.21 on) or Gymnasium. `workers.py` is the other end. Commands and answers are JSON lines on a socket; actions,
observations, rewards, costs and ends lie in a file that both sides map into memory. Nothing is pickled.

Under the interpreter of focops the environments are `local.LocalEnvs`, exactly as without workers. Elsewhere they are
those of `plain_env.py`. It, `contract.py` and this file need the standard library and NumPy alone.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import socket
import statistics
import sys
import threading
import time
import traceback
from typing import Any

import numpy as np

MEASURED_STEPS, MEASURED_SECONDS = 20, 0.2
"""Steps whose time is measured, and seconds that it may take."""


class Envs:
    """Environments of one id, asked one after the other. `envs` has them by their numbers in the vector; each has
    `reset(seed, at)`, `step(action, at)` and `close(at)`, where `at` is the step of the run, for messages."""

    failure = Exception
    """What an environment that fails raises."""
    deadline = contextlib.nullcontext()
    """In which environments are asked."""

    def __init__(self, env_id, index):
        self.env_id, self.envs, self.at = env_id, {}, 0
        self.current = np.array([index], np.int32)
        """The number of the environment that is asked."""
        self.description = {}
        self.encode = lambda action: action
        """From the policy's actions [n, A], [n] or [n, K] to the environment's."""

    def open(self, index):
        raise NotImplementedError

    def add(self, indices):
        for i in indices:
            self.current[0] = i
            with self.deadline:
                self.envs[i] = self.open(i)

    def step_seconds(self):
        """The median time of the first steps of an episode; 0 if it cannot be measured."""
        (index, env), times = next(iter(self.envs.items())), []
        dtype = np.int32 if self.description["discrete"] else np.float32
        (action,) = self.encode(np.zeros((1, *self.description["action_shape"]), dtype))
        self.current[0] = index
        try:
            with self.deadline:
                env.reset(0, 0)
                until = time.perf_counter() + MEASURED_SECONDS
                while len(times) < MEASURED_STEPS and time.perf_counter() < until:
                    began = time.perf_counter()
                    answer = env.step(action, 0)
                    times.append(time.perf_counter() - began)
                    if answer[3] or answer[4]:
                        break
        except self.failure:  # if it matters, it comes again where the run is kept
            pass
        return statistics.median(times) if times else 0.0

    def begin(self, ids, seeds, at):
        """The first observations of new episodes, each from its own seed."""
        self.at, obs = at, np.empty((len(ids), self.description["obs_size"]), np.float32)
        with self.deadline:
            for row, i in enumerate(ids):
                obs[row] = self._ask(i).reset(int(seeds[row]), at)
        return obs

    def step(self, action, at):
        """Step every environment, in the order of their numbers: observations [n, O], rewards [n], costs [n, m],
        terminated [n], truncated [n]. Numbers may still be infinite or NaN."""
        self.at, n = at, len(self.envs)
        reward, cost = np.empty(n), np.empty((n, len(self.description["costs"])))
        terminated, truncated = np.empty(n, bool), np.empty(n, bool)
        obs, actions = np.empty((n, self.description["obs_size"]), np.float32), self.encode(action)
        with self.deadline:
            for row, i in enumerate(self.envs):
                answer = self._ask(i).step(actions[row], at)
                obs[row], reward[row], cost[row], terminated[row], truncated[row] = answer
        return obs, reward, cost, terminated, truncated

    def replay(self, actions, at):
        """Repeat the actions of some environments' episodes; the last observation of each, but of those that fail."""
        self.at, found = at, {}
        for i, history in actions.items():
            try:
                for action in self.encode(history):
                    found[i] = np.asarray(self._ask(i).step(action, at)[0], np.float32)
            except self.failure:
                found.pop(i, None)
        return found

    def close(self, at):
        """Close every environment; what went wrong."""
        self.at, problems = at, []
        for i in self.envs:
            try:
                with self.deadline:
                    self._ask(i).close(at)
            except self.failure as error:
                problems.append(str(error))
        return problems

    def _ask(self, i):
        self.current[0] = i
        return self.envs[i]


class PlainEnvs(Envs):
    """For an interpreter that does not have focops."""

    def __init__(self, index, costs, env_id, cost, needs_cost, order):
        super().__init__(env_id, index)
        names = runpy.run_path(os.path.join(os.path.dirname(__file__), "plain_env.py"))
        self.failure, self._open, self._cost = names["RunError"], names["PlainEnv"], cost
        first = self.envs[index] = self._open(env_id, index, cost, costs)
        self.description, self.encode = first.describe(needs_cost, order)

    @classmethod
    def by_name(cls, index, costs, **opening):
        return cls(index, costs, **opening)

    def open(self, index):
        found = self.description
        return self._open(self.env_id, index, self._cost, (found["costs"], found["named"]))


class Commands:
    """What a worker is asked for; each method is one command."""

    def __init__(self, stream):
        self.stream, self.arrays = stream, {}
        self.kind: Any = PlainEnvs
        self.envs: Any = None

    def prepare(self, path):
        """Import what environments need. `path` is the module path of the focops that asks, for its own interpreter."""
        if path is not None:
            sys.path[:] = path
            from focops.envs.local import LocalEnvs

            self.kind = LocalEnvs

    def open(self, indices, costs, imports, **opening):
        """Open more environments, after `imports`, the modules that register them."""
        for module in imports:
            importlib.import_module(module)
        if self.envs is None:
            self.envs = self.kind.by_name(indices[0], costs, **opening)
            indices = indices[1:]
        self.envs.add(indices)
        return self.envs.description

    def measure(self):
        return self.envs.step_seconds()

    def share(self, file, arrays, number):
        """Map the arrays; worker `number` writes which environment it asks into its own place of `current`."""
        memory = np.memmap(file, np.uint8, "r+")
        for name, (dtype, shape, offset) in arrays.items():
            self.arrays[name] = np.ndarray(shape, dtype, memory, offset)
        self.envs.current = self.arrays["current"][number : number + 1]
        self.rows = slice(min(self.envs.envs), max(self.envs.envs) + 1)

    def begin(self, ids, seeds, at):
        self.arrays["obs"][ids] = self.envs.begin(ids, seeds, at)

    def step(self, at):
        answers = self.envs.step(self.arrays["action"][self.rows], at)
        for name, values in zip(("obs", "reward", "cost", "terminated", "truncated"), answers):
            self.arrays[name][self.rows] = values

    def replay(self, index, steps, at):
        """Repeat the actions that follow as bytes; whether it came to an observation."""
        action = self.arrays["action"][index]
        data = self.stream.read(steps * action.nbytes)
        history = np.frombuffer(data, action.dtype).reshape((steps, *action.shape))
        found = self.envs.replay({index: history}, at)
        if found:
            self.arrays["obs"][index] = found[index]
        return bool(found)

    def close(self, at):
        return self.envs.close(at)


def main():
    def end_with_focops():
        os.read(0, 1)  # nothing is ever written there; it is closed when focops ends
        os.killpg(0, signal.SIGKILL)  # this process, and all that environments have started

    threading.Thread(target=end_with_focops, daemon=True).start()
    ended = contextlib.suppress(ConnectionError)  # focops was killed before it read an answer
    with ended, socket.socket(fileno=int(sys.argv[-1])) as channel, channel.makefile("rwb") as stream:
        commands = Commands(stream)
        for line in iter(stream.readline, b""):
            command, arguments = json.loads(line)
            try:
                answer = {"answer": getattr(commands, command)(**arguments)}
            except (Exception, SystemExit) as error:
                kind = type(error).__name__
                known = kind in ("RunError", "UsageError")
                answer = {
                    "error": kind if known else "RunError",
                    "message": str(error) if known else f"{kind}: {error}",
                    "traceback": traceback.format_exc(),
                }
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()


if __name__ == "__main__":
    main()
