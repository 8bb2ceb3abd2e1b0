"""Which run a file belongs to: written in config.json, checkpoints and policies, and compared when they are read."""

import hashlib
import json
from typing import Any

from focops.config import TrainConfig
from focops.runs.config_json import config_to_json

Identity = dict[str, Any]
"""`run_id`, `task`, `algorithm` and `seed`; files written before there was an id lack some of them."""

_NOT_DECISIVE = {"out", "threads", "checkpoint_every", "env_timeout", "env_workers", "env_python"}
_NOT_DECISIVE |= {"final_episodes", "init_from", "layout", "given"}
"""Fields of the config that do not affect a run's numbers, or that have several spellings."""

_LATER = [("cost", None)]
"""Fields of later versions, with the value at which a run is as before: its id is then the same, too."""


def run_id(config: TrainConfig) -> str:
    """A hash of a run's config at its start. A run that is started twice has the same id, and the same files."""
    fields = {name: value for name, value in config_to_json(config).items() if name not in _NOT_DECISIVE}
    fields = {name: value for name, value in fields.items() if (name, value) not in _LATER}
    fields["algo"] = {name: value for name, value in fields["algo"].items() if name != "network"}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def difference(found: Any, own: Identity) -> str:
    """How the identity in a file differs from the run's own, for a message; "" if it does not. Entries that one of the
    two lacks, as older files do, are not compared."""
    if not isinstance(found, dict):
        return ""
    differ = [name for name in own if name in found and found[name] != own[name]]
    if differ == ["run_id"]:
        return "it began with the same task, algorithm and seed, but with other settings"
    return ", ".join(f"its {name} is {found[name]!r}, here it is {own[name]!r}" for name in differ if name != "run_id")
