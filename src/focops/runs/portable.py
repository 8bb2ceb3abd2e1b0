"""What is published of a run: enough to load, evaluate and show its policy; nothing that names this machine."""

import json
from typing import Any

from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.files import resume_command
from focops.runs.policy_file import FILE

_HERE = {"out", "init_from", "env_python"}
"""Entries of config.json that are paths of this machine."""


def portable_files(run: RunDirectory) -> dict[str, bytes]:
    """The content of policy, config.json and summary.json, by their names in the run's directory."""
    config: dict[str, Any] = json.loads(run.config_file.read_bytes())
    config |= dict.fromkeys(_HERE & config.keys())
    config["versions"] = {name: version for name, version in run.versions.items() if name != "platform"}
    if run.changes:
        config["changes"] = [{k: v for k, v in change.items() if k not in _HERE} for change in run.changes]
    summary = {name: value for name, value in summary_of(run).items() if name != "out"}
    return {
        f"policy/{FILE}": (run.policy / FILE).read_bytes(),
        "config.json": _json(config),
        "summary.json": _json(summary),
    }


def summary_of(run: RunDirectory) -> dict[str, Any]:
    """The summary of a run that has ended with a policy."""
    if run.summary is None or not (run.policy / FILE).is_file():
        raise UsageError(
            f"{run.path} has no summary or no policy yet: it is training or was killed; let it end, or resume it:  "
            f"{resume_command(run.path)}"
        )
    return run.summary


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
