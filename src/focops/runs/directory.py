"""A run's directory: config.json, metrics.jsonl, checkpoint/, policy/, summary.json and TensorBoard events."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from focops import zoo
from focops.config import TrainConfig
from focops.envs.names import GIVEN_NOTHING, Given
from focops.errors import RunError, UsageError
from focops.runs.config_json import config_from_json, config_to_flat_json, config_to_json
from focops.runs.files import make_own_folder, refuse_link, resume_command, write_json
from focops.runs.identity import Identity, run_id
from focops.runs.lock import Lock
from focops.runs.paths import default_path
from focops.runs.versions import changed_versions, current_versions

_ELSEWHERE = "choose another --out"
_MEND = "check its permissions and the space on its disk, then try again"
PENDING = "the evaluation was not completed; `focops resume RUN` makes up for it"
"""Why a policy is not evaluated, in the summary of a finished run whose evaluation is still to come."""


class RunDirectory:
    """The paths of a run's files, and the lock that excludes a second process. `zoo:NAME` is a path as well.

    >>> with RunDirectory.create(config) as run:
    ...     checkpoint.save(run.checkpoints, 1, arrays, {})
    """

    def __init__(self, path: Path) -> None:
        self.path = zoo.located(path)
        self._lock: Lock | None = None

    @classmethod
    def create(cls, config: TrainConfig, versions: dict[str, str] | None = None) -> Self:
        """Make and lock the directory of a new run (config.out, or a name in runs/) and write its config.json."""
        run = cls(Path(config.out) if config.out is not None else default_path(config))
        run._require_name()
        with _explained(run.path, "make a run's directory", _ELSEWHERE):
            run.path.mkdir(parents=True, exist_ok=True)
        run._acquire(_ELSEWHERE)
        try:
            run.require_free()
            with _explained(run.path, "write", _ELSEWHERE):
                make_own_folder(run.checkpoints)
            run.write_config(dataclasses.replace(config, out=run.path), versions)
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def open(cls, path: Path, *, lock: bool = True) -> Self:
        """The directory of an existing run; without the lock for reading only."""
        run = cls(path)
        if not run.config_file.is_file():
            raise UsageError(f"{path} holds no run (no config.json in it); give the directory that `focops train` made")
        if lock:
            if zoo.is_named(path):
                raise UsageError(f"{path} is a policy without checkpoints, which cannot be trained on; train a new run")
            run._acquire(_MEND)
        return run

    @property
    def config_file(self) -> Path:
        return self.path / "config.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoint"

    @property
    def policy(self) -> Path:
        return self.path / "policy"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    @property
    def _lock_file(self) -> Path:
        return self.path / ".lock"

    @property
    def _holds_run(self) -> bool:
        files = (self.config_file, self.metrics_file, self.summary_file)
        return any(file.exists() for file in files) or any(self.checkpoints.glob("*.safetensors"))

    def _require_name(self) -> None:
        """Refuse a name that cannot be a file name or be printed."""
        name = str(self.path)
        if "\0" in name or name.encode(errors="ignore").decode() != name:
            raise UsageError(f"--out is {name!r}; it must be a name in UTF-8, without NUL; {_ELSEWHERE}")

    def require_free(self) -> None:
        """Refuse a directory that cannot become a new run's; nothing is written."""
        self._require_name()
        with _explained(self.path, "look into", _ELSEWHERE):
            holds_run = self._holds_run
            existing = next(path for path in (self.path, *self.path.absolute().parents) if path.exists())
        if holds_run:
            raise UsageError(f"{self.path} holds a run; `{resume_command(self.path)}` resumes it, or {_ELSEWHERE}")
        if not existing.is_dir():
            raise UsageError(f"cannot make a run's directory {self.path}: {existing} is a file; {_ELSEWHERE}")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise UsageError(f"cannot write in {existing}: Permission denied; {_ELSEWHERE}")

    @property
    def config(self) -> TrainConfig:
        """The run's config as it was trained, with `out` set to its present directory."""
        return self.config_with()

    def config_with(self, network: Any = None, given: Given = GIVEN_NOTHING) -> TrainConfig:
        """The config of a run that used a network or an environment given in Python, which a file cannot hold."""
        return dataclasses.replace(config_from_json(self._read(self.config_file), network, given), out=self.path)

    def write_config(
        self, config: TrainConfig, versions: dict[str, str] | None = None, changes: list[dict[str, Any]] | None = None
    ) -> None:
        """Write config.json with the versions of all packages that affect a run's numbers, the run's id (both as they
        were at the start), and the changes since."""
        if versions is None:
            versions = self.versions if self.config_file.exists() else current_versions(config.env_python)
        own_id = self.identity.get("run_id") if self.config_file.exists() else run_id(config)
        extra = {"versions": versions} | ({"changes": changes} if changes else {})
        extra |= {"run_id": own_id} if own_id is not None else {}
        with _explained(self.config_file, "write", _MEND):
            write_json(self.config_file, config_to_json(config) | extra)

    def record_change(self, config: TrainConfig, iteration: int) -> None:
        """Make `config` the run's from `iteration` on, and record what it changes."""
        old = config_to_flat_json(self.config_with(config.algo.network, config.given))
        new = config_to_flat_json(config)
        changed = {name: {"from": old[name], "to": new[name]} for name in new if old[name] != new[name]}
        if changed:
            self.write_config(config, changes=[*self.changes, {"iteration": iteration, **changed}])

    @property
    def identity(self) -> Identity:
        """The identity that is written into the run's files, so that another run's are recognised."""
        data = self._read(self.config_file)
        return {name: data[name] for name in ("run_id", "task", "algorithm", "seed") if name in data}

    @property
    def changes(self) -> list[dict[str, Any]]:
        """What was changed on resuming, and at which iteration; config.json holds the values since then."""
        changes = self._read(self.config_file).get("changes", [])
        if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
            raise UsageError(f"{self.config_file}: changes is {changes!r}; it must be a list of objects; mend it")
        return changes

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the run was made with."""
        versions = self._read(self.config_file).get("versions", {})
        if not isinstance(versions, dict):
            raise UsageError(f"{self.config_file}: versions is {versions!r}; it must be an object; mend it")
        return versions

    def changed_versions(self, env_python: Path | None = None) -> list[str]:
        """What has changed since the run began ("jax 0.10.1 is now 0.10.2"): its numbers may then differ slightly.
        `env_python` is the environments' interpreter, if it is not the one that the run has had."""
        had = self._read(self.config_file).get("env_python")
        return changed_versions(self.versions, env_python or (Path(had) if isinstance(had, str) else None))

    @property
    def layout(self) -> str:
        """The spaces that the run was trained in; "" where they are vectors, or a version did not record them."""
        return str(self._read(self.config_file).get("layout") or "")

    def write_summary(self, summary: dict[str, Any]) -> None:
        with _explained(self.summary_file, "write", _MEND):
            write_json(self.summary_file, summary)

    def remove_summary(self) -> None:
        """Of a run that goes on: what it says is no longer so."""
        with _explained(self.summary_file, "remove", _MEND):
            self.summary_file.unlink(missing_ok=True)

    @property
    def summary(self) -> dict[str, Any] | None:
        """The summary of a run that has ended, else None."""
        return self._read(self.summary_file) if self.summary_file.is_file() else None

    def is_finished(self, steps: int | None = None) -> bool:
        """Whether the run has finished; with `steps`, whether it has finished that many samples."""
        summary = self.summary or {}
        done = summary.get("steps")
        return summary.get("finished") is True and isinstance(done, int) and done >= (steps or 0)

    def is_complete(self, steps: int | None = None) -> bool:
        """Whether there is nothing to resume: the run has finished, and its policy need not be evaluated any more."""
        return self.is_finished(steps) and (self.summary or {}).get("not_evaluated") != PENDING

    def require_in_place(self) -> None:
        """Refuse to continue if the locked directory has been removed or renamed."""
        if self._lock is not None and not self._lock.is_in_place:
            raise RunError(
                f"{self.path} is no longer the directory that this run began in: it, or the .lock in it, was removed,"
                " renamed or replaced meanwhile. Nothing more was written; if the directory is elsewhere now, resume it"
                " there from its last checkpoint:  focops resume DIRECTORY"
            )

    def require_no_lost_checkpoint(self, checkpoint_every: int) -> None:
        """Refuse to start over where there has been a checkpoint: that would replace the metrics and the policy.

        A run killed before its first checkpoint has the empty folder, no policy, and records up to that checkpoint.
        """
        if any(self.checkpoints.glob("*.safetensors")):
            return
        records, has_policy = _lines(self.metrics_file), self.policy.exists()
        overdue = 0 < checkpoint_every < records or (records > 0 and not self.checkpoints.exists())
        if overdue or has_policy:
            found = [f"{records} records in metrics.jsonl"] * (records > 0) + ["a policy"] * has_policy
            raise UsageError(
                f"{self.path} has {' and '.join(found)}, but its checkpoints are missing from {self.checkpoints}: the"
                " run would start over and replace what is there. Put the checkpoints back, or train a new run with"
                " `focops train --out`; to start over here, remove metrics.jsonl and policy/ first"
            )

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _acquire(self, way_out: str) -> None:
        for folder in (self.checkpoints, self.policy, self.path / "wandb"):
            with _explained(folder, "write in", way_out):
                refuse_link(folder)
        with _explained(self._lock_file, "write", way_out):
            self._lock = Lock(self._lock_file)

    def _read(self, file: Path) -> dict[str, Any]:
        with _explained(file, "read", _MEND):
            text = file.read_bytes()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file} is damaged: {error}") from None
        if not isinstance(value, dict):
            raise UsageError(f"{file} is damaged: it holds no JSON object")
        return value


def runs_in(path: Path | str) -> list[Path]:
    """The run at `path`, or those of the grid at `path`: in the grid's order, else by name."""
    path = Path(path)
    if RunDirectory(path).config_file.is_file():
        return [path]
    with _explained(path, "look into", "give the directory of a run or of a grid"):
        found = {file.parent.name for file in path.glob("*/config.json")}
    if not found:
        raise UsageError(
            f"{path} holds no run (no config.json in it, nor in a directory of it); give the directory that `focops"
            " train` made, of a run or of a grid"
        )
    order = {name: i for i, name in enumerate(_grid_names(path))}
    return [path / name for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))]


def _grid_names(path: Path) -> list[str]:
    """The names of a grid's runs as it lists them; none where it has no such list."""
    try:
        return [str(run["name"]) for run in json.loads((path / "grid.json").read_bytes())["runs"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _lines(file: Path) -> int:
    """Whole lines of a file; 0 if there is none."""
    if not file.exists():
        return 0
    with _explained(file, "read", _MEND), open(file, "rb") as lines:
        return sum(line.endswith(b"\n") for line in lines)


@contextlib.contextmanager
def _explained(path: Path, action: str, way_out: str) -> Iterator[None]:
    """Turn an OSError into an error with a message."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot {action} {path}: {error.strerror or error}; {way_out}") from error
