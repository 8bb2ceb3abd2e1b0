"""`focops tune`: what it finds, how it goes on, and what it refuses. Runs are replaced by ones that end at once, but
for one search."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar
from unittest import mock

import pytest

from focops import cli
from focops.cli import arguments, grid_runs
from focops.cli.engines import Job, State, Watch, local
from focops.config import TrainConfig
from focops.runs.directory import RunDirectory
from focops.studies import results
from tests.studies.factory import make_run

LIMIT = 82.748
ROOT = Path(__file__).parents[2]
SEARCH = "--search algo.temperature=0.3..30:log algo.epochs=1..20"


def runs_well(config: TrainConfig) -> tuple[float, float]:
    """Return and cost: both fall with the temperature, and the limit is kept from 2 on."""
    return 1000 / config.algo.temperature - abs(config.algo.epochs - 10), 2 * LIMIT / config.algo.temperature


class Instant:
    """An engine whose runs end as soon as they start. `outcome` gives return and cost, or what a run fails with."""

    def __init__(self, outcome: Callable[[TrainConfig], tuple[float, float] | str], interrupt_at: int = -1) -> None:
        self.outcome, self.interrupt_at = outcome, interrupt_at
        self.started: list[str] = []

    def run(self, jobs: Sequence[Job], watch: Watch) -> None:
        waiting = list(jobs)
        while not watch.stopped and (waiting := waiting or list(watch.more())):
            job = waiting.pop(0)
            self.started.append(job.name)
            watch.now(job, "running")
            watch.now(job, *self._train(job))
            watch.progress()

    def kill(self) -> None: ...

    def _train(self, job: Job) -> tuple[State, str]:
        if len(self.started) == self.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
            return "stopped", ""
        assert job.config is not None
        found = self.outcome(job.config)
        if isinstance(found, str):
            return "failed", found
        reward, cost = found
        run = {"seed": job.config.seed, "constraints": {"speed": LIMIT}, "iterations": 10}
        make_run(job.directory, reward=reward, cost=cost, **run)
        return "done", ""


@pytest.fixture(autouse=True)
def in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Instant:
    """In place of the engines; `outcome` can be changed."""
    engine = Instant(runs_well)
    monkeypatch.setattr(grid_runs, "engines_for", lambda how: {"cpu": engine})
    return engine


def tune(words: str) -> int:
    return cli.main(["tune", "HopperSpeed", *words.split()])


def best(folder: str = "t") -> dict:
    return json.loads(Path(folder, "best.json").read_text())


def test_it_finds_the_best_setting_within_the_limit_and_prints_its_command(runs: Instant, capsys) -> None:
    assert tune(f"{SEARCH} --trials 25 --out t --algo.temperature 30 --algo.epochs 1 --seed 5") == 0
    found = best()
    assert found["feasible"]
    assert found["cost"]["speed"] <= LIMIT
    assert 2 <= found["settings"]["algo.temperature"] < 3  # the optimum is 2; the search began at 30
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == found["command"]
    focops, train, *words = shlex.split(found["command"])
    config = arguments.parse(words).config
    assert (focops, train, config.task, config.seed) == ("focops", "train", "HopperSpeed-v0", 5)
    assert config.algo.temperature == found["settings"]["algo.temperature"]
    assert "25 trials: none yet → t" in printed
    assert "trial 0 " in printed


def test_a_search_that_is_interrupted_goes_on_to_the_same_trials(runs: Instant, capsys) -> None:
    assert tune(f"{SEARCH} --trials 12 --out whole --jobs 1") == 0
    whole, runs.started, runs.interrupt_at = runs.started, [], 5
    assert tune(f"{SEARCH} --trials 12 --out t --jobs 1") == 128 + signal.SIGINT
    assert "Resume:  focops resume t" in capsys.readouterr().err
    assert cli.main(["resume", "t"]) == 0
    assert runs.started == [*whole[:5], *whole[4:]]  # the one that was interrupted again, and no other
    assert best("t") | {"runs": 0} == best("whole") | {"runs": 0}


def test_the_same_command_repeats_nothing_and_more_trials_go_on(runs: Instant) -> None:
    assert tune(f"{SEARCH} --trials 4 --out t") == 0
    assert tune(f"{SEARCH} --trials 4 --out t") == 0
    assert len(runs.started) == 4
    assert tune(f"{SEARCH} --trials 6 --out t") == 0
    assert runs.started == [f"trial={number:03d},seed=0" for number in range(6)]


def test_if_no_trial_keeps_its_limits_it_says_so_and_names_the_nearest(runs: Instant, capsys) -> None:
    runs.outcome = lambda config: (config.algo.temperature, 100 + config.algo.temperature)
    assert tune(f"{SEARCH} --trials 4 --out t") == 0
    nearest = min(RunDirectory(path).summary["policy"]["sampled"]["reward"] for path in Path("t/trials").iterdir())
    found = best()
    assert not found["feasible"]
    assert found["return"] == nearest
    said = capsys.readouterr().err
    assert f"no trial kept its limits. The nearest is trial {found['trial']}: speed is 1" in said
    assert "for a limit of 82.75" in said


def test_a_trial_is_judged_by_the_mean_over_its_seeds(runs: Instant) -> None:
    runs.outcome = lambda config: (100 + config.seed, 10)
    assert tune(f"{SEARCH} --trials 2 --seeds 0,3 --out t") == 0
    rewards = [RunDirectory(Path(path)).summary["policy"]["sampled"]["reward"] for path in best()["runs"]]
    assert len(rewards) == 2
    assert best()["return"] == pytest.approx(sum(rewards) / 2)


def test_limits_do_not_count_for_an_algorithm_that_does_not_look_at_costs(runs: Instant) -> None:
    runs.outcome = lambda config: (config.algo.clip, 1000)
    assert tune("--algo ppo --search algo.clip=0.1..0.3 --trials 3 --out t") == 0
    assert best()["feasible"]


def test_a_run_that_falls_behind_is_given_up_unless_that_is_switched_off(runs: Instant, capsys) -> None:
    runs.outcome = lambda config: (1000 - 100 * len(runs.started), 10)
    assert tune(f"{SEARCH} --trials 8 --out t") == 0
    assert capsys.readouterr().out.count("after 40% of its samples") == 3
    runs.started = []
    assert tune(f"{SEARCH} --trials 8 --no-prune --out u") == 0
    assert "after 40%" not in capsys.readouterr().out


def test_what_fails_every_time_ends_the_search(runs: Instant, capsys) -> None:
    runs.outcome = lambda config: "the disk is full"
    assert tune(f"{SEARCH} --trials 6 --out t") == 1
    assert len(runs.started) == 3
    said = capsys.readouterr()
    assert "3 trials in a row; the last one: the disk is full" in said.err
    assert "no trial has been trained to its end" in said.out
    runs.outcome = runs_well
    assert cli.main(["resume", "t"]) == 0  # once it is mended


def test_one_failure_does_not_end_it(runs: Instant) -> None:
    runs.outcome = lambda config: "diverged" if len(runs.started) == 2 else runs_well(config)
    assert tune(f"{SEARCH} --trials 5 --out t") == 0
    assert len(runs.started) == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--search algo.temprature=1..2", "did you mean algo.temperature"),
        ("--search", "--search has no values"),
        ("--search algo.nu-rate", "--search algo.nu-rate has no values"),
        ("--search algo.gae=0.9,0.95", "2 settings, fewer than --trials 30: train them all"),
        ("--search algo.epochs=2..4", "focops train HopperSpeed-v0 --algo.epochs 2,3,4"),
        ("--algo ppo,focops", "which a search does not take: run one of each"),
        ("--search algo.minibatch-size=64,100 --trials 2", "--algo.minibatch-size is 100; it must be a divisor"),
        ("--algo.temperature 1,2", "which a search takes as --search algo.temperature=1,2"),
        ("--seed 0..2", "which a search takes as --seeds"),
        ("--algo.temperature 50", "it searches 0.3..30.0:log"),
        ("--num-envs 3", "--batch-size is 2048; it must be a multiple of --num-envs (3)"),
        ("--backend mjx", "a search trains on the cpu"),
        ("--final-episodes 0", "it must be ≥ 2 here"),
        ("--trials 0", "--trials is 0"),
        ("--search-seed -1", "--search-seed is -1"),
        ("--jobs -1", "--jobs is -1"),
        ("--seeds 0,0", "it names a seed twice"),
        ("--seeds x", "give whole numbers"),
        ("--out .", ". holds something else than a search"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_trained(
    runs: Instant, capsys, words: str, message: str
) -> None:
    Path("something").touch()
    assert tune(words) == cli.USAGE
    assert message in capsys.readouterr().err
    assert not runs.started
    assert os.listdir() == ["something"]


@pytest.mark.parametrize("other", ["--steps 2M", "--seeds 1", "--search-seed 1", "--no-prune", "--cost-limit 60"])
def test_the_directory_of_another_search_is_refused(runs: Instant, capsys, other: str) -> None:
    assert tune(f"{SEARCH} --trials 1 --out t") == 0
    assert tune(f"{SEARCH} --trials 1 --out t {other}") == cli.USAGE
    assert "t holds another search: its " in capsys.readouterr().err
    assert cli.main(["resume", "t", "--steps", "2M"]) == cli.USAGE
    Path("t/tune.json").write_text("[]")
    assert tune(f"{SEARCH} --trials 1 --out t") == cli.USAGE
    assert cli.main(["resume", "t"]) == cli.USAGE


class Sleeper:
    """A process that ends when it is told to stop, or by itself if its name begins with "short"."""

    told: ClassVar[list[str]] = []

    def __init__(self, job: Job, core: int | None) -> None:
        self.job, self.core = job, core

    @property
    def ending(self) -> bool:
        return self.job.name in self.told or self.job.name.startswith("short")

    def end(self) -> tuple[State, str]:
        return ("stopped" if self.job.name in self.told else "done"), ""

    def stop(self) -> None:
        self.told.append(self.job.name)


def test_without_optuna_nothing_is_left_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.main(["tune", "HopperSpeed", "--out", str(tmp_path / "search")]) == 2
    assert "pip install 'focops[tune]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_processes_are_asked_for_as_others_end_and_one_can_be_stopped_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "Process", Sleeper)
    monkeypatch.setattr(local, "POLL_SECONDS", 0)
    jobs = [Job(name, Path("grid") / name, []) for name in ("short 1", "long", "unwanted", "short 2")]
    waiting = jobs[1:]

    class Growing(Watch):
        most = len(jobs)

        def more(self) -> Sequence[Job]:
            return [waiting.pop(0)] if waiting else []

        def unwanted(self, job: Job) -> bool:
            return job.name == "unwanted" or (job.name == "long" and jobs[3].state == "done")

    Path("grid").mkdir()
    local.Local(at_once=2).run(jobs[:1], Growing(mock.Mock(), []))
    assert [job.state for job in jobs] == ["done", "stopped", "stopped", "done"]
    assert set(Sleeper.told) == {"long"}  # the other was never begun


def test_trials_are_ordinary_runs(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)]))
    small = "--steps 256 --batch-size 64 --num-envs 4 --algo.hidden 8 --algo.minibatch-size 32 --final-episodes 2"
    words = f"tests.probes:Coin --cost-limit 0.4 {small} --search algo.temperature=0.5..2 --trials 2 --out t".split()
    assert cli.main(["tune", *words]) == 0, capsys.readouterr()
    runs = results.read([Path("t")]).runs
    assert [run.path.name for run in runs] == ["trial=000,seed=0", "trial=001,seed=0"]
    assert [run.status for run in runs] == ["finished", "finished"]
    found = best()
    run = runs[found["trial"]]
    assert run.settings["algo.temperature"] == found["settings"]["algo.temperature"]
    assert found["return"] == run.delivered.reward
    assert found["feasible"] == (run.delivered.costs["cost"] <= 0.4)
