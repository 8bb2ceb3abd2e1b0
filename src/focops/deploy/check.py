"""What is exported against the policy, as JAX computes it, on random and extreme observations."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from focops.core import normalize
from focops.core import policy as core_policy
from focops.core.distributions import DiagonalGaussian
from focops.errors import RunError

TOLERANCE = 1e-5
"""Of an action, relative to it where it is above 1; of a discrete one, of its logit."""
_RANDOM = 256
_SECONDS = 120
"""For another Python to start and to act."""


class Cases(NamedTuple):
    """N observations, the noise of N samples, and what the policy gives for both."""

    obs: np.ndarray
    """[N, O]"""
    noise: np.ndarray
    """[N, A]"""
    mean: np.ndarray
    """Mean actions [N, A], or logits."""
    sampled: np.ndarray
    """Sampled actions [N, A], or logits with noise."""


def cases(policy: Any) -> Cases:
    obs = observations(policy.stats, policy.description["obs_size"])
    given = core_policy.distribution(policy.network, policy.params, normalize.apply(policy.stats, jnp.asarray(obs)))
    rng, shape = np.random.default_rng(1), (len(obs), policy.description["action_size"])
    if isinstance(given, DiagonalGaussian):
        noise = rng.standard_normal(shape, np.float32)
        low, high = (policy.description[end] for end in ("action_low", "action_high"))
        bounded = lambda x: np.clip(np.asarray(x), np.float32(low), np.float32(high)) if low and high else np.asarray(x)
        return Cases(obs, noise, bounded(given.mode()), bounded(given.sample(jnp.asarray(noise))))
    noise = rng.gumbel(size=shape).astype(np.float32)
    return Cases(obs, noise, np.asarray(given.logits), np.asarray(given.logits) + noise)


def observations(stats: normalize.Stats, size: int) -> np.ndarray:
    """Random ones as in training and far from it; zero, tiny, huge and infinite ones; those at the normaliser's clip,
    and just beside it. Of images random ones, black, white, and every shade."""
    rng = np.random.default_rng(0)
    if isinstance(stats, normalize.Bytes):
        plain = [np.full(size, shade) for shade in (0, 1, 127, 255)]
        return np.stack([*rng.integers(0, 256, (16, size)), *plain, np.arange(size) % 256]).astype(np.float32)
    mean, std = np.asarray(stats.mean), np.asarray(normalize.std(stats))
    normal = rng.standard_normal((_RANDOM, size)) * rng.choice([0.1, 1, 3, 10], (_RANDOM, 1))
    largest = np.finfo(np.float32).max
    ends = [sign * normalize.CLIP * near for sign in (-1, 1) for near in (1, 1 - 1e-6, 1 + 1e-6)]
    sizes = np.array([0, 1e-40, 1, 1e6, 1e30, largest, np.inf], np.float32)
    same = [np.full(size, each) for each in (*-sizes, *sizes)]
    mixed = rng.choice([*-sizes[:-1], *sizes[:-1]], (16, size))
    return np.stack([*(mean + std * normal), *(mean + std * end for end in ends), *same, *mixed]).astype(np.float32)


def difference(found: np.ndarray, expected: np.ndarray, nvec: list[int] | None) -> float:
    """The largest, relative where an action is above 1. Of discrete actions: by how much the chosen logit is below the
    largest one."""
    if nvec is None:
        gap = np.abs(found - expected) / np.maximum(np.abs(expected), 1)
    else:
        parts = np.split(expected, np.cumsum(nvec)[:-1], -1)
        chosen = found.reshape(len(expected), len(nvec)).T.astype(np.int64)
        each = [
            part.max(-1) - np.take_along_axis(part, one[:, None], -1)[:, 0]
            for part, one in zip(parts, chosen, strict=True)
        ]
        gap = np.stack(each) / np.maximum(np.abs(expected).max(-1), 1)
    worst = float(np.max(gap))
    return np.inf if np.isnan(worst) else worst


def onnx_actions(model: bytes, given: Cases, sampled: bool, image: list[int] | None) -> np.ndarray:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    obs = given.obs if image is None else given.obs.reshape(-1, *image).astype(np.uint8)
    feed = {"observation": obs} | ({"noise": given.noise} if sampled else {})
    return np.asarray(session.run(["action"], feed)[0])


_ALONE = """
import runpy, sys
import numpy as np
before = set(sys.modules)
file, given, found = sys.argv[1:]
names, given = runpy.run_path(file), np.load(given)
new = {each.split(".")[0] for each in set(sys.modules) - before if getattr(sys.modules[each], "__file__", None)}
also = new - set(sys.stdlib_module_names) - {"numpy"}
assert not also, f"it needs {also}"
policy = names["POLICY"]
sampled = policy.action(policy.output(given["obs"]), given["noise"])
np.savez(found, mean=names["predict"](given["obs"], True), sampled=sampled)
"""


def python_actions(source: bytes, given: Cases) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sampled actions of the file, imported by another Python that has loaded NumPy alone."""
    with tempfile.TemporaryDirectory() as folder:
        file, obs, found = (Path(folder) / name for name in ("policy.py", "given.npz", "found.npz"))
        file.write_bytes(source)
        np.savez(obs, obs=given.obs, noise=given.noise)
        command = [sys.executable, "-I", "-c", _ALONE, str(file), str(obs), str(found)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if ran.returncode:
            raise RunError(f"the exported file fails in a Python with NumPy alone: {ran.stderr.strip()[-500:]}")
        with np.load(found) as actions:
            return actions["mean"], actions["sampled"]
