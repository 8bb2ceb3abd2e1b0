"""The versions of what affects a run's numbers."""

import contextlib
import platform
from importlib import metadata
from pathlib import Path

from focops.envs import other_python

_PACKAGES = ("focops", "jax", "jaxlib", "numpy", "mujoco", "gymnasium")


def current_versions(env_python: Path | None = None) -> dict[str, str]:
    """Versions of Python and of the packages that affect a run's numbers, and the platform; as `env_…` those of the
    interpreter that its environments run under, if it is another."""
    found = {"python": platform.python_version(), "platform": platform.platform(), "machine": platform.machine()}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    if env_python is not None:
        found |= {f"env_{name}": version for name, version in other_python.versions(env_python).items()}
    return found


def changed_versions(then: dict[str, str], env_python: Path | None = None) -> list[str]:
    """What has changed since `then`: "jax 0.10.1 is now 0.10.2"."""
    now = current_versions(env_python)
    return [f"{name} {then[name]} is now {now.get(name)}" for name in then if then[name] != now.get(name)]
