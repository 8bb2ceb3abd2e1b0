"""A policy as a file for elsewhere, checked before it is handed out."""

import json
from importlib import metadata
from typing import Any, NamedTuple

from focops.deploy import check, onnx_graph, python_file
from focops.deploy.plain import numpy_policy
from focops.errors import RunError, UsageError

ENDINGS = (".onnx", ".py")


class Exported(NamedTuple):
    data: bytes
    observations: int
    """How many it was checked on."""
    difference: float
    """The largest from the policy's actions, as `check.difference` measures it."""


def exported(policy: Any, ending: str, sampled: bool) -> Exported:
    """A `focops.Policy` as an ONNX graph or a Python file. RunError if that does not give the policy's actions."""
    if ending not in ENDINGS:
        raise UsageError(
            f"the file's ending is {ending!r}; it must be .onnx (a graph) or .py (Python with NumPy alone)"
        )
    plain = numpy_policy(policy.network, policy.params, policy.stats, policy.description)
    if plain is None:
        raise UsageError(
            f"the policy has a network of its own, {policy.network!r}; only MLP and NatureCNN can be exported. Use"
            " policy.predict, or export your network's `apply` by jax.export"
        )
    given, about, nvec = check.cases(policy), described(policy, sampled), plain.form["nvec"]
    image = about["observation"]["image"]
    if ending == ".onnx":
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in about.items()}
        data = onnx_graph.build(plain, sampled, image, texts)
        pairs = [(check.onnx_actions(data, given, sampled, image), given.sampled if sampled else given.mean)]
    else:
        data = python_file.source(plain, sampled, about)
        pairs = list(zip(check.python_actions(data, given), (given.mean, given.sampled), strict=True))
    worst = max(check.difference(found, expected, nvec) for found, expected in pairs)
    if not worst <= check.TOLERANCE:
        raise RunError(
            f"the exported file is not the policy: on {len(given.obs)} random and extreme observations its actions"
            f" differ by up to {worst:.3g}, and {check.TOLERANCE:g} is allowed. Nothing was written; please report it"
        )
    return Exported(data, len(given.obs), worst)


def described(policy: Any, sampled: bool) -> dict[str, Any]:
    """What the file says of itself: task, spaces, limits, and what the evaluation after training found."""
    own = policy.description
    choices = own.get("nvec") or ([own["action_size"]] if own["discrete"] else None)
    acting = "sampled" if sampled else "mean_action"
    found = (policy.evaluation or {}).get(acting) or {"cost_limit": {}}
    return {
        "producer": f"focops {metadata.version('focops')}",
        "task": own["task"],
        "iteration": own["iteration"],
        "acting": acting,
        "observation": {
            "size": own["obs_size"],
            "image": _list(own.get("image")),
            "layout": own.get("layout") or "vector",
        },
        "action": {"size": own["action_size"], "choices": _list(choices)}
        | {end: _list(own[f"action_{end}"]) for end in ("low", "high")},
        "constraints": {
            name: {"limit": limit, "discount": found.get("cost_discount", {}).get(name)}
            | {key: found[key][name] for key in ("discounted_cost", "discounted_cost_interval", "verdict")}
            for name, limit in found["cost_limit"].items()
        },
        "evaluated": f"on {found['episodes']} episodes" if "episodes" in found else "no",
    }


def _list(values: Any) -> list[Any] | None:
    return None if values is None else list(values)
