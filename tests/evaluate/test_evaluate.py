"""Evaluation on environments whose returns and costs are known, and that it leaves the run alone."""

import dataclasses
import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from scipy import stats

import focops
from focops import api as runs
from focops import cli, evaluation
from focops.core.spec import Constraint
from focops.errors import UsageError
from focops.evaluation import host
from focops.evaluation import judge as judging
from tests.resume.tiny import OURS, tiny


class Dice(gymnasium.Env):
    """An episode lasts 1 or 3 steps, equally likely; each step pays 1 and costs (2, 0). Notes its seeds."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    seeds: list[int] = []  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed = seed
        self.left = 1 if self.np_random.uniform() < 0.5 else 3
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        Dice.seeds.append(self.seed)  # of episodes that are played
        return np.zeros(1, np.float32), 1.0, self.left == 0, False, {"cost": np.array([2.0, 0.0])}


if "EvaluationDice-v0" not in gymnasium.registry:
    gymnasium.register("EvaluationDice-v0", entry_point=Dice)
DICE = f"{__name__}:EvaluationDice-v0"


@pytest.fixture(scope="module")
def dice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dice") / "run"
    config = tiny(DICE, out, cost_limit=(4.0, 1.0), cost_discount=(0.9, 0.9))
    runs.run(dataclasses.replace(config, num_envs=16))
    return out


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.run(tiny(OURS, tmp_path_factory.mktemp("point") / "run")).path


def test_returns_costs_and_lengths_are_those_of_whole_episodes(dice: Path) -> None:
    result = focops.evaluate(dice, episodes=400)
    share = (result.episode_length.mean - 1) / 2  # of the long ones
    # however short, an episode counts once: with environments run for a fixed time long ones would be 1/4
    assert abs(share - 0.5) < 0.1
    assert result.reward == result.episode_length
    first, second = result.constraints.values()
    np.testing.assert_allclose(first.undiscounted_cost.mean, 2 * result.reward.mean)
    np.testing.assert_allclose(first.discounted_cost.mean, 2 + share * 2 * (0.9 + 0.81))
    np.testing.assert_allclose(first.share_above_limit, share)  # 2 or 5.42, against 4
    assert (second.discounted_cost.mean, second.lower_bound, second.share_above_limit) == (0, 0, 0)
    # episodes that all cost 0 say nothing of those that might not
    assert (first.verdict, second.verdict, second.upper_bound) == ("satisfied", "undecided", None)
    assert (result.cut, result.episodes, result.iteration) == (0, 400, 6)


def test_a_number_of_episodes_that_does_not_fill_the_environments_is_exact(dice: Path) -> None:
    assert focops.evaluate(dice, episodes=37).episodes == 37  # 16 side by side


def test_seeds_are_not_those_of_training_and_each_has_its_own(tmp_path: Path) -> None:
    Dice.seeds.clear()
    run = runs.run(tiny(DICE, tmp_path / "run", cost_limit=(4.0, 1.0), cost_discount=(0.9, 0.9))).path
    trained = set(Dice.seeds)
    Dice.seeds.clear()
    results = [focops.evaluate(run, episodes=32, seeds=[seed]) for seed in (0, 3, 3)]
    # 0 is the seed of the step that finds out how many costs there are
    assert trained & set(Dice.seeds) == {0}
    assert results[0].reward != results[1].reward
    assert results[1] == results[2]


def test_our_tasks_start_from_states_that_training_never_saw() -> None:
    from focops.envs import make

    env = make(OURS, 8)
    seen = set()
    for seed in range(8):
        env.reset(seed)
        for _ in range(8):
            seen |= {tuple(row) for row in env.obs}
            env.restart()
    assert len(seen) == 8 * 8 * 8
    for seed in range(8):
        env.reset(evaluation.UNSEEN + seed)
        for _ in range(8):
            assert not seen & {tuple(row) for row in env.obs}
            env.restart()


def test_sampled_actions_are_those_of_training_and_deterministic_ones_repeat(point: Path) -> None:
    sampled = [focops.evaluate(point, episodes=4, deterministic=False) for _ in range(2)]
    modes = focops.evaluate(point, episodes=4, deterministic=True)
    assert sampled[0] == sampled[1]
    assert sampled[0].reward.std > 10 * modes.reward.std  # an untrained policy: almost all is noise


def test_it_never_touches_the_run(point: Path, tmp_path: Path) -> None:
    before = {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in point.rglob("*") if f.is_file()}
    assert cli.main(["evaluate", str(point), "--episodes", "10", "--json", str(tmp_path / "deep" / "e.json")]) == 0
    assert {f: (f.read_bytes(), f.stat().st_mtime_ns) for f in point.rglob("*") if f.is_file()} == before


def test_the_papers_protocol_is_one_flag(point: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", str(point), "--protocol", "paper", "--json", str(tmp_path / "e.json")]) == 0
    found = json.loads((tmp_path / "e.json").read_text())
    assert (found["episodes"], found["seeds"]) == (100, list(range(10)))
    assert "100 episodes, 10 seed(s), sampled actions, 95% intervals" in capsys.readouterr().out


def test_the_table_and_the_json_say_the_same(dice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", str(dice), "--episodes", "60", "--seeds", "1..2"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    found = json.loads((dice / "evaluation.json").read_text())
    cost = found["constraints"]["cost_0"]
    assert cost["verdict"] in text
    assert f"{cost['upper_bound']:.4g}" in text
    assert f"cost_0: {evaluation.BOUNDS[cost['bound']]}" in text
    assert f"[{cost['discounted_cost']['low']:.4g}, {cost['discounted_cost']['high']:.4g}]" in text


def test_endless_episodes_are_cut_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs.run(tiny("tests.resume.worlds:EndlessDrift-v0", tmp_path / "run", iterations=1)).path
    monkeypatch.setattr(host, "MAX_STEPS", 30)
    assert cli.main(["evaluate", str(run), "--episodes", "6"]) == 0
    assert "6 episode(s) were cut" in capsys.readouterr().out
    assert json.loads((run / "evaluation.json").read_text())["episode_length"]["mean"] == 30


@pytest.mark.parametrize(
    ("mean", "verdict"), [(0.5, "satisfied"), (0.95, "undecided"), (1.05, "undecided"), (1.5, "violated")]
)
def test_a_verdict_is_given_only_when_the_bound_is_on_one_side(mean: float, verdict: str) -> None:
    values = mean + np.random.default_rng(0).normal(0, 1, 100)
    values += mean - values.mean()
    result = judging.judge(Constraint("c", 1.0), values, values, 0.95)
    # Student's bound of a normal sample is what any other should come near to
    student = stats.t.ppf(0.95, 99) * values.std(ddof=1) / 10
    assert result.lower_bound == pytest.approx(mean - student, abs=0.02)
    assert result.upper_bound == pytest.approx(mean + student, abs=0.02)
    assert (result.verdict, result.bound) == (verdict, "student")
    assert (result.episodes_needed is None) == (verdict != "undecided")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals, which no verdict depends on, from fewer resamples."""
    monkeypatch.setattr(judging, "RESAMPLES", 99)


def judge(values: np.ndarray, limit: float) -> evaluation.ConstraintResult:
    return judging.judge(Constraint("c", limit), values, values, 0.95)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("episodes", "share", "cost"), [(10, 0.1, 100.0), (30, 0.1, 100.0), (100, 0.01, 1000.0)])
def test_rare_costs_are_seldom_taken_for_satisfied(episodes: int, share: float, cost: float) -> None:
    """J_C is 10 and the limit 5; (1 − share)^episodes of the evaluations, 4 to 37%, see no cost at all."""
    samples = cost * (np.random.default_rng(0).uniform(size=(200, episodes)) < share)
    wrong = sum(judge(x, 5.0).verdict == "satisfied" for x in samples)
    assert stats.binomtest(wrong, 200, 0.05, alternative="greater").pvalue > 0.01


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("episodes", [2, 10, 400])
def test_identical_episodes_are_not_enough_for_satisfied(episodes: int) -> None:
    result = judge(np.zeros(episodes), 5.0)
    assert (result.verdict, result.bound, result.upper_bound) == ("undecided", "identical", None)
    # nor is a number of them; but (1 − u)·0 + u·cost ≤ 5, where u of all episodes are missed by 5% of the evaluations
    assert result.episodes_needed is None
    assert result.unseen_cost is not None
    np.testing.assert_allclose((1 - 5 / result.unseen_cost) ** episodes, 0.05)
    jitter = 3.0 + 1e-8 * np.random.default_rng(0).normal(size=episodes)
    assert judge(jitter, 5.0).bound == "identical"


@pytest.mark.usefixtures("quick")
def test_identical_episodes_are_enough_where_it_is_known_what_one_can_cost() -> None:
    """Unseen are at most 1 − 0.05^(1/n) of all episodes: 3% at n = 100."""
    found = lambda n: judging.judge(Constraint("c", 5.0), np.full(n, 2.0), np.full(n, 2.0), 0.95, most=50.0)
    seen, needed = 0.05 ** (1 / 100), found(20).episodes_needed
    assert found(100).upper_bound == pytest.approx(seen * 2 + (1 - seen) * 50)
    assert (found(100).verdict, found(100).bound, found(100).unseen_cost) == ("satisfied", "bounded", None)
    assert needed is not None
    assert [found(needed - 1).verdict, found(needed).verdict] == ["undecided", "satisfied"]
    above = judging.judge(Constraint("c", 5.0), np.full(4, 9.0), np.full(4, 9.0), 0.95, most=50.0)
    assert (above.verdict, above.bound) == ("undecided", "identical")


@pytest.mark.usefixtures("quick")
def test_identical_or_few_episodes_can_be_enough_for_violated() -> None:
    assert judge(np.full(10, 100.0), 5.0).verdict == "violated"  # if J_C ≤ 5, at most 5% of episodes cost 100
    result = judge(np.full(2, 10.0), 5.0)
    assert (result.verdict, result.episodes_needed) == ("undecided", 5)  # half of them must be 0: 0.5⁵ ≤ 5% < 0.5⁴
    assert judge(np.full(4, 10.0), 5.0).verdict == "undecided"
    result = judge(np.full(5, 10.0), 5.0)
    assert (result.verdict, result.bound, result.unseen_cost) == ("violated", "cheapest", None)


@pytest.mark.usefixtures("quick")
def test_too_few_episodes_are_said_to_be_too_few() -> None:
    result = judge(np.random.default_rng(0).normal(1.0, 0.1, 28), 5.0)
    assert (result.verdict, result.bound, result.episodes_needed) == ("undecided", "few", 29)  # 0.9²⁹ ≤ 5% < 0.9²⁸


def test_an_undecided_verdict_says_what_would_decide(dice: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", str(dice), "--episodes", "10"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    costs = json.loads((dice / "evaluation.json").read_text())["constraints"]
    assert f"undecided at 95%: about {costs['cost_0']['episodes_needed']} episodes would decide" in text
    assert "undecided at 95%: no number of such episodes would decide" in text
    rare = "satisfied as long as rare episodes that none of these was like (at most 26% of all)"
    assert f"{rare} cost at most {1 / (1 - 0.05**0.1):.4g} on average" in text
    assert costs["cost_1"]["upper_bound"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--episodes 1", "--episodes is 1; it must be ≥ 2"),
        ("--episodes 7 --seeds 0,1", "a multiple of the 2 seed(s)"),
        ("--seeds 1,1", "give different whole numbers"),
        ("--seeds x", "--seeds is 'x'; give whole numbers"),
        ("--confidence 1", "--confidence is 1.0; it must be in (0.5, 1)"),
        ("--json /dev/null/x", "name another file with --json"),
    ],
)
def test_what_cannot_be_evaluated_has_status_2(
    point: Path, capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    assert cli.main(["evaluate", str(point), "--episodes", "2", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_a_directory_without_a_run_has_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err


def test_evaluate_is_a_function_of_the_package() -> None:
    assert callable(focops.evaluate)
    with pytest.raises(UsageError, match="holds no run"):
        focops.evaluate("/nowhere")
