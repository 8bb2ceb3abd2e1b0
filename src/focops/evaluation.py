"""Evaluating a trained policy on unseen episodes, with intervals and a verdict on each constraint.

Each seed's episodes are run side by side, one per environment, each to its end. An episode counts once, however short.
Actions are as in training: sampled unless `deterministic`, and not clipped, because the environment does that itself.
Observations are normalised by the statistics at the end of training, which do not change.
"""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from focops import confidence as bounds
from focops import envs
from focops.core.networks import Network
from focops.core.spec import Constraint
from focops.core.types import VectorEnv
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.files import write_json
from focops.runs.policy import Policy, load
from focops.training.host import configure_jax

UNSEEN = 0x6576616C << 32
"""Added to a seed, so that resets draw from streams that no training run uses: seeds and numbers of environments are
smaller there."""
PROTOCOLS: dict[str, dict[str, Any]] = {"paper": {"episodes": 100, "seeds": tuple(range(10))}}
"""paper: generalisation to 10 unseen seeds, 10 episodes each."""
AT_ONCE = 128
"""Episodes of our tasks that are run side by side."""
MAX_STEPS = 10_000
"""Steps after which an episode is cut in an environment without a time limit."""
RESAMPLES = 9999
BOUNDS = {
    "student": "Student's t, corrected for skewness",
    "rare": "Student's t, with room for rare costs, as one episode makes up much of the variance",
    "cheapest": "a share of the cheapest episode's cost, for costs ≥ 0",
    "identical": "no bound, as all episodes cost the same",
    "few": "no bound, as there are too few episodes",
}
"""The bounds that a verdict may be based on."""


@dataclass(frozen=True)
class Estimate:
    """A mean over episodes, and an interval that holds the true one with the stated confidence (bootstrap)."""

    mean: float
    low: float
    high: float
    std: float


@dataclass(frozen=True)
class ConstraintResult:
    """The result for one constraint: J_C ≤ limit?"""

    limit: float
    discount: float
    discounted_cost: Estimate
    """J_C."""
    undiscounted_cost: Estimate
    share_above_limit: float
    """Share of the episodes whose own discounted cost is above the limit."""
    lower_bound: float | None
    upper_bound: float | None
    """One-sided confidence bounds on J_C (`focops.confidence`); None: these episodes give none."""
    verdict: str
    """satisfied: the upper bound is within the limit; violated: the lower bound is above it; else undecided."""
    bound: str
    """Which bound the mean's side of the limit has, a key of BOUNDS."""
    episodes_needed: int | None
    """If undecided: about how many would decide, were the rest like these; None: no number of such episodes."""
    unseen_cost: float | None
    """The verdict (of identical episodes: the one not given) holds unless kinds of episode that did not occur, at most
    `Evaluation.unseen_share` of all, cost on average more (satisfied) or less (violated) than this.
    None: undecided, or costs ≥ 0 cannot be less."""


@dataclass(frozen=True)
class Evaluation:
    """The whole of an evaluation; `save` writes it as JSON."""

    task: str
    run: str
    iteration: int
    """Iteration of training at which the policy was saved."""
    episodes: int
    seeds: tuple[int, ...]
    deterministic: bool
    confidence: float
    cut: int
    """Episodes that had not ended after MAX_STEPS."""
    diverged: int
    """Episodes that an unstable simulation ended."""
    unseen_share: float
    """A kind of episode that did not occur has at most this share of all, with the stated confidence."""
    reward: Estimate
    episode_length: Estimate
    constraints: dict[str, ConstraintResult]

    def save(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, asdict(self))
        except OSError as error:
            raise UsageError(f"could not write {path}: {error.strerror}; name another file with --json") from error


def evaluate(
    run: Path | str,
    *,
    episodes: int = 100,
    seeds: Sequence[int] = (0,),
    deterministic: bool = False,
    confidence: float = 0.95,
    threads: int = 1,
    network: Network | None = None,
) -> Evaluation:
    """Evaluate a run's policy on `episodes` episodes, shared out evenly among `seeds`. Nothing of the run is changed.

    focops.evaluate("cheetah", episodes=100, seeds=range(10)) is the paper's generalisation protocol. `network` is
    needed only if the run used one of your own.
    """
    seeds = tuple(int(seed) for seed in seeds)
    _check(episodes, seeds, confidence)
    configure_jax()
    config = RunDirectory.open(Path(run), lock=False).config_with(network)
    policy = load(run, network)
    each = episodes // len(seeds)
    at_once = AT_ONCE if envs.find(config.task) else config.num_envs
    env = envs.make(
        config.task, min(each, at_once), limits=config.cost_limit, discounts=config.cost_discount,
        threads=threads, stagger=False, timeout=config.env_timeout,
    )  # fmt: skip
    try:
        ran = [_run(policy, env, seed, each, deterministic) for seed in seeds]
    finally:
        env.close()
    rows = np.concatenate([rows for rows, _, _ in ran])
    constraints, m = env.spec.constraints, len(env.spec.constraints)
    return Evaluation(
        task=config.task,
        run=str(run),
        iteration=policy.description["iteration"],
        episodes=len(rows),
        seeds=seeds,
        deterministic=deterministic,
        confidence=confidence,
        cut=sum(cut for _, cut, _ in ran),
        diverged=sum(diverged for _, _, diverged in ran),
        unseen_share=bounds.unseen_share(len(rows), confidence),
        reward=_estimate(rows[:, 1], confidence),
        episode_length=_estimate(rows[:, 0], confidence),
        constraints={
            c.name: _judge(c, rows[:, 2 + i], rows[:, 2 + m + i], confidence) for i, c in enumerate(constraints)
        },
    )


def _check(episodes: int, seeds: Sequence[int], confidence: float) -> None:
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32 or len(set(seeds)) < len(seeds):
        raise UsageError(f"--seeds is {list(seeds)}; give different whole numbers from 0 to 2³² − 1, as 0..9 or 1,2,5")
    if episodes < 2 or episodes % len(seeds):
        raise UsageError(f"--episodes is {episodes}; it must be ≥ 2 and a multiple of the {len(seeds)} seed(s)")
    if not 0.5 < confidence < 1:
        raise UsageError(f"--confidence is {confidence}; it must be in (0.5, 1)")


def _run(policy: Policy, env: VectorEnv, seed: int, episodes: int, deterministic: bool) -> tuple[np.ndarray, int, int]:
    """(length, reward, m discounted costs, m undiscounted costs) of each episode; how many were cut, and diverged."""
    key, rounds, cut = jax.random.key(seed), [], 0
    discounts = np.array([c.discount for c in env.spec.constraints])
    env.reset(UNSEEN + seed)
    while env.num_envs * len(rounds) < episodes:
        if rounds:
            env.restart()
        total = np.zeros((env.num_envs, 2 + 2 * len(discounts)))
        running = np.ones(env.num_envs, bool)
        key, round_key = jax.random.split(key)
        for t in range(MAX_STEPS):
            step = env.step(policy.act(jax.random.fold_in(round_key, t), env.obs, deterministic))
            paid = [np.ones((env.num_envs, 1)), step.reward[:, None], discounts**t * step.cost, step.cost]
            total += np.where(running[:, None], np.concatenate(paid, 1), 0.0)
            running &= ~(step.terminated | step.truncated)
            if not running.any():
                break
        left = episodes - env.num_envs * len(rounds)
        cut += int(running[:left].sum())
        rounds.append(total[:left])
    return np.concatenate(rounds), cut, env.diverged


def _judge(constraint: Constraint, discounted: np.ndarray, plain: np.ndarray, confidence: float) -> ConstraintResult:
    limit, upward = constraint.limit, bounds.sample(discounted)
    # a lower bound is the negative of an upper bound of the negative costs: the same code for either side of the limit
    sign, side = (1, upward) if upward.mean <= limit else (-1, bounds.sample(-discounted))
    upper, lower = bounds.upper_bound(upward, confidence), bounds.lower_bound(discounted, confidence)
    verdict = "satisfied" if upper <= limit else "violated" if lower > limit else "undecided"
    bound = _which(side, verdict, confidence)
    needed = unseen_cost = None
    if verdict == "undecided":
        needed = bounds.episodes_needed(side, sign * limit, confidence)
    if bound == "identical" and sign < 0:
        needed = bounds.identical_episodes_needed(float(upward.mean), limit, confidence)
    elif bound == "identical" or (verdict != "undecided" and bound != "cheapest"):
        unseen_cost = sign * float(bounds.tolerated(side, sign * limit, confidence))
        unseen_cost = None if discounted.min() >= 0 > unseen_cost else unseen_cost
    return ConstraintResult(
        limit=limit,
        discount=constraint.discount,
        discounted_cost=_estimate(discounted, confidence),
        undiscounted_cost=_estimate(plain, confidence),
        share_above_limit=float(np.mean(discounted > limit)),
        lower_bound=float(lower) if np.isfinite(lower) else None,
        upper_bound=float(upper) if np.isfinite(upper) else None,
        verdict=verdict,
        bound=bound,
        episodes_needed=needed,
        unseen_cost=unseen_cost,
    )


def _which(side: bounds.Sample, verdict: str, confidence: float) -> str:
    """The key in BOUNDS of what decides, or fails to decide, on this side of the limit."""
    few = side.n < bounds.fewest_episodes(confidence)
    if side.identical or few:
        return "cheapest" if verdict == "violated" else "identical" if side.identical else "few"
    return "rare" if bounds.dominated(side) else "student"


def _estimate(values: np.ndarray, confidence: float) -> Estimate:
    low, high = _interval(values, confidence, "two-sided")
    return Estimate(float(np.mean(values)), low, high, float(np.std(values, ddof=1)))


def _interval(values: np.ndarray, confidence: float, alternative: Any) -> tuple[float, float]:
    """Bootstrap interval of the mean: BCa, or by percentiles where that does not exist; a point if all are equal."""
    from scipy.stats import bootstrap

    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy's about the former; its interval is then NaN
            found = bootstrap(
                (values,), np.mean, confidence_level=confidence, alternative=alternative, n_resamples=RESAMPLES,
                batch=max(1, 10**7 // len(values)), rng=np.random.default_rng(0), method=method,
            ).confidence_interval  # fmt: skip
        if not np.isnan([found.low, found.high]).any():
            break
    return float(found.low), float(found.high)
