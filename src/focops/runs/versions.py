"""The versions of what affects a run's numbers."""

import contextlib
import platform
from importlib import metadata

_PACKAGES = ("focops", "jax", "jaxlib", "numpy", "mujoco", "gymnasium")


def current_versions() -> dict[str, str]:
    """Versions of Python and of the packages that affect a run's numbers, and the platform."""
    found = {"python": platform.python_version(), "platform": platform.platform(), "machine": platform.machine()}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def changed_versions(then: dict[str, str]) -> list[str]:
    """What has changed since `then`: "jax 0.10.1 is now 0.10.2"."""
    now = current_versions()
    return [f"{name} {then[name]} is now {now.get(name)}" for name in then if then[name] != now.get(name)]
