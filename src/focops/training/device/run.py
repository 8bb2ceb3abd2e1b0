"""One run of a device trainer, as the code that saves it sees it: the counterpart of the host's `Trainer`."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from focops.core.types import Rollout
from focops.envs.mjx import Simulations
from focops.errors import RunError, UsageError
from focops.training import finite
from focops.training.device.episodes import EpisodeSums
from focops.training.device.program import Runs
from focops.training.host import Arrays, Learned, Record, fill, named, report

if TYPE_CHECKING:
    from focops.training.device.trainer import DeviceTrainer


class DeviceRun:
    """Run `index` of a trainer."""

    def __init__(self, trainer: "DeviceTrainer", index: int):
        self._trainer, self._index = trainer, index
        self.config, self.spec, self._algo = trainer.configs[index], trainer.specs[index], trainer.algos[index]
        self.failed_after: int | None = None
        """The last good iteration of a run that has failed."""
        self.error: RunError | None = None

    @property
    def iteration(self) -> int:
        return self._trainer.iteration if self.failed_after is None else self.failed_after

    def tree(self) -> Runs:
        """The run at the last snapshot; if it has failed, its last good state."""
        return self._at()[1]

    def arrays(self) -> Arrays:
        """`tree` as named arrays."""
        iteration, tree = self._at()
        return self._named(tree) | {"iteration": np.array(iteration)}

    def _at(self) -> tuple[int, Runs]:
        trainer, i = self._trainer, self._index
        if self.failed_after is not None:  # its present state: a failed run does not change any more
            return self.failed_after, jax.device_get(jax.tree.map(lambda x: x[i], trainer.runs))
        assert trainer.host is not None, "take a snapshot first"
        iteration, runs = trainer.host
        return iteration, jax.tree.map(lambda x: np.asarray(x[i]), runs)

    def filled(self, arrays: Arrays) -> Runs:
        """The run with all of its arrays replaced by those."""
        tree = self.tree()
        mine = self._named(tree)
        for name, value in mine.items():
            if name not in arrays or arrays[name].shape != value.shape:
                found = arrays[name].shape if name in arrays else "nothing"
                raise UsageError(f"the checkpoint does not fit this run: {name} should be {value.shape}, found {found}")
        part = lambda kind, prefix: kind(**{f: arrays[f"{prefix}/{f}"] for f in kind._fields})
        learner = jax.tree.map(np.asarray, fill(tree.learner, arrays))
        return tree._replace(learner=learner, sims=part(Simulations, "env"), book=part(EpisodeSums, "episodes"))

    def record(self) -> Record:
        """The iteration that was reported last."""
        told, i = self._trainer.told, self._index
        assert told is not None, "advance first"
        info = jax.tree.map(lambda x: x[i], told.info)
        return report(
            self.config, self.spec, self._algo, self.iteration, self.means(), int(told.finished[i]),
            int(told.diverged[i]), info,
        )  # fmt: skip

    def means(self) -> np.ndarray | None:
        """Mean length, reward, discounted and undiscounted costs over the latest episodes; None before the first."""
        told, i = self._trainer.told, self._index
        if told is not None:
            return told.means[i] if told.finished[i] else None
        self._trainer.snapshot()  # a run that was restored at its last iteration
        book = self.tree().book
        return np.asarray(np.mean(book.recent[: book.finished], 0)) if book.finished else None

    def learned(self) -> Learned:
        """The policy at the last snapshot."""
        iteration, tree = self._at()
        state, stats = tree.learner
        return Learned(state.policy, stats, iteration)

    def fault(self) -> str:
        """Which number of a failed iteration was not finite, and what produced it."""
        rollout, rejected = self.batch()
        return finite.first_fault(rollout, self.tree().learner, rejected)

    def evidence(self) -> Arrays:
        """The evidence of a failed iteration: the last good state, the batch, and the rejected state."""
        rollout, rejected = self.batch()
        batch = {f"rollout/{k}": np.asarray(v) for k, v in rollout._asdict().items() if k != "stats"}
        return {**self.arrays(), **batch, **named(rejected, "rejected")}

    def batch(self) -> tuple[Rollout, Any]:
        """The batch [T, E] of the iteration that was reported last, and the learner it resulted in."""
        assert self._trainer.evidence is not None, "advance first"
        i, (rollout, learner) = self._index, self._trainer.evidence
        one = lambda tree, axis: jax.tree.map(lambda x: np.asarray(x.take(i, axis)), tree)
        apart = ("stats", "progress")
        own = Rollout(**{name: one(x, int(name not in apart)) for name, x in rollout._asdict().items()})
        return own, jax.tree.map(lambda x: np.asarray(x[i]), learner)

    def _named(self, tree: Runs) -> Arrays:
        sims = {f"env/{name}": value for name, value in tree.sims._asdict().items()}
        book = {f"episodes/{name}": value for name, value in tree.book._asdict().items()}
        return {**named(tree.learner), **sims, **book}
