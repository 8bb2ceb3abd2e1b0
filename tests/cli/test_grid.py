"""A grid is the product of comma-separated values."""

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from typing import get_origin

import pytest
from rich.console import Console

from focops.cli import engines, grid
from focops.cli.engines import Job, local
from focops.config import TrainConfig, default_config
from focops.errors import UsageError
from focops.runs.config_json import field_types
from focops.runs.directory import PENDING, RunDirectory


def expand(line: str) -> list[grid.Point]:
    return grid.expand(grid.split(line.split()))


def names(line: str) -> list[str]:
    return [point.name for point in expand(line)]


def test_a_plain_command_is_no_grid() -> None:
    assert expand("HopperSpeed --seed 3 --cost-limit 20 30 --quiet") == []


def test_a_range_of_seeds_has_both_ends() -> None:
    assert names("--seeds 0..3") == ["seed=0", "seed=1", "seed=2", "seed=3"]


def test_seeds_may_be_listed_and_mixed_with_ranges() -> None:
    assert names("--seeds 7,0..2,5") == ["seed=7", "seed=0", "seed=1", "seed=2", "seed=5"]


def test_one_seed_given_as_seeds_is_a_grid_of_one() -> None:
    assert expand("--seeds 4") == [grid.Point("seed=4", ("--seed", "4"))]


def test_a_grid_is_every_combination_with_seeds_fastest() -> None:
    assert names("--seeds 0..1 --algo.temperature 1,1.5 --preset fast,paper") == [
        f"temperature={t},preset={p},seed={s}" for t in ("1", "1.5") for p in ("fast", "paper") for s in "01"
    ]


def test_each_point_is_a_command_line() -> None:
    points = expand("AntSpeed --algo.temperature=1,2 --seeds 0,1 --quiet")
    assert points[1].words == ("AntSpeed", "--algo.temperature", "1", "--seed", "1", "--quiet")
    assert len(points) == 4


def test_tasks_can_vary() -> None:
    assert [point.words[0] for point in expand("AntSpeed,HopperSpeed --steps 1k")] == ["AntSpeed", "HopperSpeed"]


def test_the_numbers_of_one_flag_can_vary_each() -> None:
    points = expand("--cost-limit 1,2 3,4")
    assert points[0].name == "cost-limit.1=1,cost-limit.2=3"
    assert [point.words[1:] for point in points] == [("1", "3"), ("1", "4"), ("2", "3"), ("2", "4")]


def test_flags_with_the_same_last_part_are_told_apart() -> None:
    assert names("--algo.threads 1,2 --threads 1,2")[0] == "algo.threads=1,threads=1"


def test_a_directory_with_a_comma_is_one_directory() -> None:
    assert expand("--out a,b") == []


def test_names_are_safe_file_names() -> None:
    assert names("module:Id-v0,focops/AntSpeed") == ["task=module_Id-v0", "task=focops_AntSpeed"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--seeds 1,1", "holds seed=1 twice"),
        ("--seeds 0..2,1", "holds seed=1 twice"),
        ("--seeds 3..0", r"a range goes upwards, as 0\.\.3"),
        ("--algo.gae 0.9,,0.95", "single commas"),
        ("--seeds 1,", "single commas"),
    ],
)
def test_a_grid_that_is_no_grid_is_refused(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        expand(line)


@pytest.mark.parametrize(
    ("line", "task"),
    [
        ("AntSpeed --seed 1", "AntSpeed"),
        ("--seed 1 AntSpeed", "AntSpeed"),
        ("--quiet AntSpeed", "AntSpeed"),
        ("--cost-limit 20 30 AntSpeed", "AntSpeed"),
        ("--algo.init-log-std -0.5 AntSpeed", "AntSpeed"),
        ("--seed=1 AntSpeed", "AntSpeed"),
        ("--seed 1", "none"),
    ],
)
def test_the_task_is_found_wherever_it_stands(line: str, task: str) -> None:
    assert grid.value_of(grid.split(line.split()), grid.TASK, "none") == task


def test_flags_with_many_values_are_exactly_the_tuples_of_the_configs() -> None:
    hidden = {"--algo.limits", "--algo.cost-discounts"}
    flags = {}
    for prefix, kind in (("--", TrainConfig), ("--algo.", type(default_config().algo))):
        types = field_types(kind)
        for field in dataclasses.fields(kind):
            flags[prefix + field.name.replace("_", "-")] = types[field.name]
    tuples = {flag for flag, hint in flags.items() if get_origin(hint) is tuple or "tuple" in str(hint)}
    assert set(grid.LISTS) == tuples - hidden


def job(tmp_path: Path, name: str, program: str) -> Job:
    return Job(name, tmp_path / name, ["-c", program])


def run_all(base: Path, jobs: list[Job], at_once: int) -> int:
    return engines.run(base, jobs, {"cpu": local.Local(at_once)}, quiet=True, again="again")


@pytest.fixture
def python_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs run Python programs in place of focops."""
    start = local.subprocess.Popen
    monkeypatch.setattr(local.subprocess, "Popen", lambda words, **kw: start([sys.executable, *words[3:]], **kw))
    monkeypatch.setattr(local, "POLL_SECONDS", 0.01)


@pytest.mark.usefixtures("python_jobs")
def test_a_failing_run_is_named_with_its_error_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [
        job(tmp_path, "seed=0", "print('error: the simulator exploded'); raise SystemExit(2)"),
        job(tmp_path, "seed=1", "print('fine')"),
        job(tmp_path, "seed=2", "import os; os.kill(os.getpid(), 9)"),
    ]
    assert run_all(tmp_path, jobs, at_once=1) == 1
    assert [each.state for each in jobs] == ["failed", "done", "failed"]
    said = capsys.readouterr().err
    assert "seed=0: the simulator exploded" in said
    assert "seed=2: killed by signal 9" in said


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system cannot pin processes")
@pytest.mark.usefixtures("python_jobs")
def test_each_run_has_one_core_and_this_process_keeps_all(tmp_path: Path) -> None:
    allowed = os.sched_getaffinity(0)
    jobs = [job(tmp_path, str(i), "import os; print(len(os.sched_getaffinity(0)))") for i in range(3)]
    assert run_all(tmp_path, jobs, at_once=1) == 0
    assert [each.output.read_text() for each in jobs] == ["1\n"] * 3
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.usefixtures("python_jobs")
def test_no_more_than_the_given_number_run_at_once(tmp_path: Path) -> None:
    program = f"""
import os, time
mine = r"{tmp_path}/running-" + str(os.getpid())
open(mine, "w").close()
time.sleep(0.2)
print(len([name for name in os.listdir(r"{tmp_path}") if name.startswith("running-")]))
os.remove(mine)
"""
    jobs = [job(tmp_path, str(i), program) for i in range(5)]
    run_all(tmp_path, jobs, at_once=2)
    assert max(int(each.output.read_text()) for each in jobs) == 2


@pytest.mark.usefixtures("python_jobs")
def test_a_run_whose_directory_cannot_be_made_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make = Path.mkdir

    def refuse(path: Path, *args: object, **kwargs: object) -> None:
        if path.name == "seed=0":
            raise PermissionError(13, "Permission denied", str(path))
        make(path, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", refuse)
    jobs = [job(tmp_path, name, "pass") for name in ("seed=0", "seed=1")]
    assert run_all(tmp_path, jobs, at_once=1) == 1
    assert [each.state for each in jobs] == ["failed", "done"]
    said = capsys.readouterr().err
    assert f"seed=0: not begun: cannot write in {tmp_path / 'seed=0'}: Permission denied\n" in said


def test_a_grid_whose_directory_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot look into .*gone: No such file or directory; check its permissions"):
        run_all(tmp_path / "gone", [job(tmp_path / "gone", "seed=0", "pass")], at_once=1)


@pytest.mark.usefixtures("python_jobs")
def test_there_are_never_more_places_than_runs(tmp_path: Path) -> None:
    jobs = [job(tmp_path, str(i), "pass") for i in range(2)]
    assert run_all(tmp_path, jobs, at_once=10**18) == 0  # a list so long would not fit


def test_a_grid_is_checked_whole_before_anything_is_written(tmp_path: Path) -> None:
    from focops import cli

    out = tmp_path / "grid"
    assert cli.main(["train", "HopperSpeed", "--algo.temperature", "1,-1", "--out", str(out)]) == 2
    assert not out.exists()


def test_a_grid_into_a_grid_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from focops import cli

    (tmp_path / "grid.json").write_text("{}")
    assert cli.main(["train", "HopperSpeed", "--seeds", "0..1", "--out", str(tmp_path)]) == 2
    assert f"focops resume {tmp_path}" in capsys.readouterr().err


def test_a_damaged_grid_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from focops import cli

    (tmp_path / "grid.json").write_text("{")
    assert cli.main(["resume", str(tmp_path)]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_a_child_gets_the_points_flags_and_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from focops import cli

    started: list[Job] = []
    monkeypatch.setattr(engines, "run", lambda base, jobs, *_: started.extend(jobs) or 0)
    words = ["HopperSpeed", "--seeds", "0..1", "--quiet", "--jobs", "2", "--steps", "1k", "--out", str(tmp_path / "g")]
    assert cli.main(["train", *words]) == 0
    assert started[1].words == [
        "train", "HopperSpeed", "--seed", "1", "--steps", "1k", "--out", str(tmp_path / "g" / "seed=1"), "--quiet"
    ]  # fmt: skip


def test_resuming_a_grid_resumes_what_began_and_trains_what_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from focops import cli
    from focops.runs.directory import RunDirectory

    started: list[Job] = []
    monkeypatch.setattr(engines, "run", lambda base, jobs, *_: started.extend(jobs) or 0)
    base = tmp_path / "g"
    assert cli.main(["train", "HopperSpeed", "--seeds", "0..2", "--out", str(base)]) == 0
    for seed in (0, 1):
        with RunDirectory.create(dataclasses.replace(default_config(), out=base / f"seed={seed}")) as run:
            if seed == 0:
                run.write_summary({"finished": True, "steps": 1000})
    first = list(started)
    started.clear()
    assert cli.main(["resume", str(base)]) == 0
    assert [each.state for each in started] == ["done", "waiting", "waiting"]
    assert started[1].words == ["resume", str(base / "seed=1"), "--quiet"]
    assert started[2].words == first[2].words
    started.clear()
    assert cli.main(["resume", str(base), "--steps", "2k"]) == 0
    assert [each.state for each in started] == ["waiting"] * 3
    shutil.rmtree(base)


def test_a_grid_tells_the_delivered_policies_of_its_runs_and_their_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from focops.display.grid import GridLines, table

    record = {"samples": 10, "steps": 10, "return_mean": 7.0, "cost_limit/speed": 2.0, "cost_return_estimate/speed": 1}
    jobs = []
    for name, verdict in {"seed=0": "satisfied", "seed=1": "violated", "seed=2": "violated"}.items():
        found = {
            "episodes": 50, "reward": 7.5, "discounted_cost": {"speed": 2.5}, "cost_limit": {"speed": 2.0},
            "verdict": {"speed": verdict},
        }  # fmt: skip
        jobs.append(Job(name, tmp_path / name, [], state="done"))
        jobs[-1].directory.mkdir()
        (jobs[-1].directory / "metrics.jsonl").write_text(json.dumps(record) + "\n")
        summary = {"policy": {"sampled": found, "mean_action": found}}
        (jobs[-1].directory / "summary.json").write_text(json.dumps(summary))
    with GridLines(tmp_path, jobs) as display:
        display.ended(jobs[0])
    said = capsys.readouterr().out
    assert "policy return 7.5, speed 2.5, limit 2: satisfied; mean action" in said
    assert "delivered policies: 33.3% satisfied (1), 0% undecided (0), 66.7% violated (2); their mean actions:" in said
    Console(width=120).print(table(jobs))
    assert capsys.readouterr().out.count("violated / violated") == 2


def test_a_run_of_a_grid_is_resumed_if_only_its_evaluation_was_interrupted(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    for reason, complete in ((PENDING, False), (None, True), ("--final-episodes is 0", True)):
        run.write_summary({"finished": True, "steps": 1000, "not_evaluated": reason})
        assert (run.is_finished(), run.is_complete()) == (True, complete)
    assert not run.is_complete(2000)
