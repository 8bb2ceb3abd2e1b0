"""Where environments run: in this process, or in workers."""

from pathlib import Path

from focops.envs.local import LocalEnvs


def place(env_id: str, num_envs: int, workers: int | None, python: Path | None, timeout: float):
    return LocalEnvs(env_id, 0, timeout=timeout), ""
