"""What an evaluation on any backend runs: which episodes, of which seeds."""

from typing import Any, NamedTuple

from focops.errors import UsageError

UNSEEN = 0x6576616C << 32
"""Added to a seed, so that resets draw from streams that no training run uses: seeds and numbers of environments are
smaller there."""
PROTOCOLS: dict[str, dict[str, Any]] = {"paper": {"episodes": 100, "seeds": tuple(range(10))}}
"""paper: generalisation to 10 unseen seeds, 10 episodes each."""


class Protocol(NamedTuple):
    """The episodes that every policy runs."""

    episodes: int
    """In all, shared out evenly among the seeds."""
    seeds: tuple[int, ...]
    deterministic: bool
    """Take the mean (most likely) actions."""
    confidence: float
    """Of intervals, bounds and verdicts."""

    def check(self) -> None:
        """Refuse what cannot be evaluated."""
        episodes, seeds = self.episodes, self.seeds
        if not seeds or min(seeds) < 0 or max(seeds) >= 2**32 or len(set(seeds)) < len(seeds):
            raise UsageError(
                f"--seeds is {list(seeds)}; give different whole numbers from 0 to 2³² − 1, as 0..9 or 1,2,5"
            )
        if episodes < 2 or episodes % len(seeds):
            raise UsageError(f"--episodes is {episodes}; it must be ≥ 2 and a multiple of the {len(seeds)} seed(s)")
        if not 0.5 < self.confidence < 1:
            raise UsageError(f"--confidence is {self.confidence}; it must be in (0.5, 1)")
