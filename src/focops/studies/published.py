"""The figures of the paper and of OmniSafe, from published.toml."""

import functools
import re
import tomllib
from importlib import resources
from typing import Any, Literal, NamedTuple


class Published(NamedTuple):
    """One algorithm on one task: means, and half-widths of their 95% intervals."""

    source: str
    title: str
    seeds: int | None
    samples: str
    reward: float
    cost: float
    reward_interval: float | None = None
    cost_interval: float | None = None

    def reward_text(self) -> str:
        return _text(self.reward, self.reward_interval, 0 if self.reward > 100 else 1)

    def cost_text(self) -> str:
        return _text(self.cost, self.cost_interval, 1)


def published(task: str, algorithm: str, of: Literal["tasks", "unseen"] = "tasks") -> Published | None:
    """What was published of an algorithm on a task, or of its best policy on unseen seeds; None if nothing was."""
    name = re.sub(r"^(.*[:/])?(Safety)?|-v\d+$", "", task)
    for source in _sources():
        found = source.get(of, {}).get(name, {})
        if algorithm in found:
            known = {key: source.get(key) for key in ("title", "seeds")}
            return Published(source["name"], **known, samples=found.get("samples", ""), **found[algorithm])
    return None


@functools.cache
def _sources() -> list[dict[str, Any]]:
    return tomllib.loads(resources.files("focops.studies").joinpath("published.toml").read_text())["source"]


def _text(value: float, interval: float | None, digits: int) -> str:
    return f"{value:.{digits}f}" + (f" ± {interval:.{digits}f}" if interval is not None else "")
