"""The command line: what it says, what it hands on, and its exit status."""

import io
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from focops import api as runs
from focops import cli
from focops.cli import arguments
from focops.config import default_config
from focops.errors import UsageError
from focops.runs.directory import RunDirectory

Calls = list[tuple[Any, dict[str, Any]]]


def plain(text: str) -> str:
    """Without frames, colours and line breaks."""
    return re.sub(r"[\s│]+", " ", re.sub(r"\x1b\[[0-9;]*m", "", text))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Trainings that were asked for; none is done."""
    asked: Calls = []

    def summary(out: Any, finished: bool = True) -> dict[str, Any]:
        return {
            "task": "HopperSpeed-v0", "algo": "focops", "seed": 0, "steps": 1000, "finished": finished, "wall_s": 1.0,
            "return_mean": 5.5, "discounted_cost_mean": {"speed": 80.0}, "undiscounted_cost_mean": {"speed": 400.0},
            "cost_limit": {"speed": 82.7}, "satisfied": True, "steps_per_second": 1000.0, "out": str(out),
        }  # fmt: skip

    def run(config: Any, **options: Any) -> runs.Run:
        asked.append((config, options))
        return runs.Run(config.out, summary(config.out))

    def resume(path: Any, **options: Any) -> runs.Run:
        asked.append((path, options))
        return runs.Run(path, summary(path))

    monkeypatch.setattr(runs, "run", run)
    monkeypatch.setattr(runs, "resume", resume)
    return asked


@pytest.mark.parametrize(
    ("text", "value"),
    [("1M", 1_000_000), ("250k", 250_000), ("1_000_000", 1_000_000), ("1e6", 1_000_000), ("1.5M", 1_500_000),
     ("2.5e3", 2_500), ("1E6", 1_000_000), ("7", 7), ("0.5k", 500), ("10G", 10**10)],
)  # fmt: skip
def test_counts_are_read(text: str, value: int) -> None:
    assert arguments.parse_count(text) == value


@pytest.mark.parametrize("text", ["", "M", "1.5", "1e-3", "-1", "1 000", "1MM", "0.0001k", "inf", "1e999"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        arguments.parse_count(text)


def test_nothing_else_trains_the_default_task(calls: Calls) -> None:
    assert cli.main(["train"]) == 0
    assert calls[0][0] == default_config("HalfCheetahSpeed-v0", "focops", "fast")


@pytest.mark.parametrize("task", ["AntCircle", "AntCircle-v0", "focops/AntCircle-v0"])
def test_defaults_are_those_of_the_task_and_the_preset(calls: Calls, task: str) -> None:
    assert cli.main(["train", task, "--preset", "paper"]) == 0
    assert calls[0][0] == default_config("AntCircle-v0", "focops", "paper")


def test_flags_override_defaults(calls: Calls, tmp_path: Path) -> None:
    flags = "--steps 250k --seed 7 --cost-limit 20 --cost-discount 1 --algo.temperature 2 --algo.nu-max inf"
    more = f"--algo.bootstrap-time-limit False --algo.hidden 32 16 --num_envs 8 --out {tmp_path / 'run'}"
    assert cli.main(["train", *flags.split(), *more.split(), "HopperSpeed"]) == 0
    config = calls[0][0]
    assert (config.task, config.steps, config.seed, config.num_envs) == ("HopperSpeed-v0", 250_000, 7, 8)
    assert (config.cost_limit, config.cost_discount, config.out) == ((20.0,), (1.0,), tmp_path / "run")
    assert (config.algo.temperature, config.algo.nu_max) == (2.0, float("inf"))
    assert (config.algo.bootstrap_time_limit, config.algo.hidden) == (False, (32, 16))
    assert type(config.algo) is type(default_config().algo)


def test_several_runs_can_be_parsed_in_one_process() -> None:
    first = arguments.parse(["HopperSpeed", "--algo.temperature", "1"])
    second = arguments.parse(["AntCircle", "--preset", "paper"])
    assert first.config.algo.temperature == 1
    assert second.config == default_config("AntCircle", "focops", "paper")


def test_quiet_is_quiet_about_the_summary(calls: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_the_summary_names_two_commands_that_parse(
    calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    RunDirectory.create(arguments.parse(["HopperSpeed", "--out", str(tmp_path)]).config).close()
    assert cli.main(["resume", str(tmp_path)]) == 0
    commands = re.findall(r"focops ((?:resume|train) .*)", capsys.readouterr().out)
    assert len(commands) == 2
    for command in commands:
        assert cli.main(command.split()) == 0
    assert calls[1][1]["steps"] == 2000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trian", "unknown command 'trian'; did you mean `focops train`?"),
        ("frobnicate", "there are: train, resume, evaluate, "),
        ("train HoperSpeed", "did you mean HopperSpeed"),
        ("train --algo sac", "unknown algorithm 'sac'; there are: focops"),
        ("train --preset slow", "unknown preset 'slow'; there are: fast, paper"),
        ("train --algo.temprature 2", "Perhaps you meant: --algo.temperature"),
        ("train --steps many", "'many' is not a whole number; write it as 250k, 1M, 1e6"),
        ("train --batch-size 100", "--batch-size is 100; it must be a multiple of --num-envs ("),
        ("train --cost-limit -3", "--cost-limit is -3.0"),
        ("train HopperSpeed --cost-limit 3 4", "2 limit(s) were given"),
        ("train --algo.nu-noise 0", "--algo.nu-noise is 0.0; it must be a positive number, or inf"),
        ("train --algo.temperature 0", "--algo.temperature is 0.0; it must be a positive number"),
        ("train HopperSpeed AntSpeed", "AntSpeed"),
        ("train --jobs -1", "--jobs is -1"),
        ("resume RUN --jobs -1", "--jobs is -1"),
        ("train --out /dev/null/run", "/dev/null is a file; choose another --out"),
        ("resume", "RUN"),
        ("train --exact --checkpoint-every 0", "--checkpoint-every is 0; it must be ≥ 1 with --exact"),
        ("train --env-timeout -1", "--env-timeout is -1.0; it must be a number of seconds from 0.001"),
        ("train --env-timeout inf", "--env-timeout is inf; it must be a number of seconds from 0.001 to 1e9, or 0"),
        ("train --env-timeout 1e-9", "--env-timeout is 1e-09; it must be a number of seconds from 0.001 to 1e9"),
        (f"train --seed {2**63}", f"--seed is {2**63}; it must be below 2⁶³"),
        (f"train --steps {2**63}", f"--steps is {2**63}; it must be below 2⁶³"),
        (f"train --algo.hidden 1{'0' * 400}", "it must be less: it needs about 1e+21 GB of memory"),
        ("train --seeds 0..999999999", "--seeds is 0..999999999, 1000000000 seeds; give at most 10000 at once"),
        ("train --seeds 0..5000 --algo.gae 0.9,0.95", "the grid has 10002 runs; it can have at most 10000"),
        ("evaluate RUN --seeds 0..999999999", "--seeds is 0..999999999, 1000000000 seeds; give at most 10000"),
        ("evaluate RUN --seeds " + "9" * 5000, "give whole numbers, as 0..9 or 1,2,5"),
        (
            "train --algo.hidden 1000000 1000000",
            "--algo.hidden is (1000000, 1000000); it must be less: it needs about 2",
        ),
        ("train --num-envs 1000000000 --batch-size 1000000000", "GB of memory. This machine has"),
        (
            "train --batch-size 1000000000000 --num-envs 1",
            "--batch-size is 1000000000000; it must be less: it needs about",
        ),
        ("train --cost-limit", "--cost-limit has no value; give one number for each cost, or leave it out"),
        ("train HopperSpeed --cost-discount --seed 1", "--cost-discount has no value"),
        ("train --cost-limit --seeds 0..1", "--cost-limit has no value"),
        ("train --out=", "--out is ''; it must name a directory"),
        ("train --out= --seeds 0..1", "--out is ''; it must name a directory"),
        ("tasks --foo", "unknown argument '--foo'; `focops tasks` takes none"),
        ("algos all", "unknown argument 'all'; `focops algos` takes none"),
        ("evaluate", "RUN"),
        ("evaluate /nowhere/at/all", "/nowhere/at/all holds no run"),
        ("resume /nowhere/at/all", "/nowhere/at/all holds no run"),
    ],
)
def test_wrong_usage_has_status_2_and_says_what_to_do(
    calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch, words: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words.split()) == 2
    captured = capsys.readouterr()
    assert message in plain(captured.err)
    assert "Traceback" not in captured.err
    assert calls == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\0b", "a\udcffb"])
@pytest.mark.parametrize("more", [[], ["--seeds", "0..1"]])
def test_a_directory_whose_name_cannot_be_written_down_is_refused(
    calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, more: list[str]
) -> None:
    assert cli.main(["train", "PointCircle", "--out", str(tmp_path / name), *more]) == 2
    assert "it must be a name in UTF-8, without NUL" in plain(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_says_so_when_quiet(calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with RunDirectory.create(arguments.parse(["HopperSpeed", "--out", str(tmp_path)]).config) as run:
        run.write_summary({"finished": True, "steps": 1000})
    assert cli.main(["resume", str(tmp_path), "--quiet"]) == 0
    assert f"is finished at 1000 samples. Train on with:  focops resume {tmp_path} --steps 2000" in (
        capsys.readouterr().out
    )


def test_what_resume_cannot_read_is_not_sent_to_an_out_that_it_does_not_have(
    calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunDirectory.create(arguments.parse(["HopperSpeed", "--out", str(tmp_path)]).config).close()

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert cli.main(["resume", str(tmp_path)]) == 2
    said = plain(capsys.readouterr().err)
    assert "Permission denied; check its permissions" in said
    assert "--out" not in said


def test_a_user_without_a_home_trains_without_a_cache_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    from focops.training.host import configure_jax

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    asked: dict[str, Any] = {}
    with mock.patch("jax.config") as config:
        config.jax_compilation_cache_dir = None
        config.update = asked.__setitem__
        configure_jax()
        assert "jax_compilation_cache_dir" not in asked
        monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
        configure_jax()
    assert asked["jax_compilation_cache_dir"] == "/somewhere/focops/jax"


def stream(encoding: str, file: Any = None) -> io.TextIOWrapper:
    return io.TextIOWrapper(file or io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize(
    "words", ["train --help", "tasks", "algos", "train --quiet", "resume RUN --quiet", "trian", "train"]
)
def test_an_ascii_terminal_is_no_reason_to_fail(calls: Calls, tmp_path: Path, monkeypatch, words: str) -> None:
    with RunDirectory.create(arguments.parse(["HopperSpeed", "--out", str(tmp_path)]).config) as run:
        run.write_summary({"finished": True, "steps": 1000})
    monkeypatch.setattr(sys, "stdout", stream("ascii"))
    monkeypatch.setattr(sys, "stderr", stream("ascii"))
    assert cli.main([str(tmp_path) if word == "RUN" else word for word in words.split()]) == 2 * (words == "trian")


def test_what_an_ascii_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", stream("ascii"))
    assert cli.main(["train", "--help"]) == 0
    sys.stdout.seek(0)
    assert "\\u03bd_max" in sys.stdout.read()  # ν


class Full(io.BytesIO):
    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("words", ["tasks", "--version", "algos", "train"])
def test_a_full_standard_output_is_a_message(calls: Calls, monkeypatch, capsys, words: str) -> None:
    monkeypatch.setattr(sys, "stdout", stream("utf-8", Full()))
    assert cli.main(words.split()) == 1
    assert "standard output cannot be written to: No space left on device" in plain(capsys.readouterr().err)


def test_a_directory_with_a_run_is_refused_before_training(
    calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    RunDirectory.create(arguments.parse(["HopperSpeed", "--out", str(tmp_path)]).config).close()
    assert cli.main(["train", "HopperSpeed", "--out", str(tmp_path)]) == 2
    assert f"focops resume {tmp_path}" in capsys.readouterr().err
    assert calls == []


def test_wandb_that_is_missing_is_said_before_training(
    calls: Calls, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["train", "--wandb"]) == 2
    assert "pip install 'focops[wandb]'" in capsys.readouterr().err
    assert calls == []


def test_an_error_of_the_run_is_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise UsageError("the [bold]environment[/bold] returned NaN")

    monkeypatch.setattr(runs, "run", run)
    assert cli.main(["train"]) == 2
    assert capsys.readouterr().err == "error: the [bold]environment[/bold] returned NaN\n"


def test_a_changed_version_is_said_on_resuming(
    calls: Calls, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = arguments.parse(["HopperSpeed", "--out", str(tmp_path)]).config
    RunDirectory.create(config, {"jax": "0.0.1"}).close()
    assert cli.main(["resume", str(tmp_path), "--steps", "2M"]) == 0
    assert "jax 0.0.1 is now" in capsys.readouterr().err
    assert calls[0][1]["steps"] == 2_000_000


@pytest.mark.parametrize("flag", ["--algo.policy-rate 1e-4", "--algo.policy-rate=1e-4", "--algo.policy_rate 1e-4"])
def test_resume_hands_on_what_is_to_change(calls: Calls, tmp_path: Path, flag: str) -> None:
    RunDirectory.create(arguments.parse(["HopperSpeed", "--out", str(tmp_path)]).config).close()
    assert cli.main(["resume", *flag.split(), str(tmp_path), "--algo.nu-max", "inf", "--steps", "2M"]) == 0
    assert calls[0][0] == tmp_path
    assert calls[0][1]["steps"] == 2_000_000
    assert calls[0][1]["changes"] == {"policy_rate": "1e-4", "nu_max": "inf"}


def test_flags_of_dependable_runs_reach_the_config(calls: Calls, tmp_path: Path) -> None:
    words = f"train HopperSpeed --exact --env-timeout 5 --from {tmp_path} --checkpoint-every 7"
    assert cli.main(words.split()) == 0
    config = calls[0][0]
    assert (config.exact, config.env_timeout, config.init_from, config.checkpoint_every) == (True, 5.0, tmp_path, 7)


@pytest.mark.parametrize("symbol", ["λ", "δ", "ν_max", "α_ν", "γ_C", "β_C"])
def test_help_names_the_papers_symbols(capsys: pytest.CaptureFixture[str], symbol: str) -> None:
    assert cli.main(["train", "--help"]) == 0
    assert symbol in capsys.readouterr().out


def test_help_shows_the_defaults_of_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "AntCircle", "--preset", "paper", "--help"]) == 0
    text = plain(capsys.readouterr().out)
    assert "--steps N Samples to train for (250k, 1M, 1e6); rounded up to whole batches. (default: 10_000_000)" in text
    assert re.search(r"--cost-limit.*?\(default: 50\.0\)", text)
    assert re.search(r"--num-envs.*?\(default: 1\)", text)


def test_help_hides_what_is_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    assert not re.search(r"--algo\.(limits|cost-discounts|network)|--algorithm", text)


def test_focops_alone_prints_a_short_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "focops train [TASK]" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"focops \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_tasks_and_algorithms_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tasks"]) == 0
    assert cli.main(["algos"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"HalfCheetahSpeed-v0 +speed +151\.989", text)
    assert re.search(r"focops +first +integrates .* Zhang et al\. 2020", text)
    assert re.search(r"cpo +second +solved per update .* Achiam et al\. 2017", text)


@pytest.mark.parametrize("words", ["", "--help", "--version", "trian"])
def test_nothing_heavy_is_imported_to_answer_at_once(words: str) -> None:
    program = """
import sys
from focops import cli
cli.main(sys.argv[1:])
heavy = {"jax", "mujoco", "optax"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", program, *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


STOPPABLE = """
import sys, time
from focops import cli
from focops.cli import arguments
from focops import api as runs
def run(config, *, display, sinks, should_stop):
    print("running", flush=True)
    deadline = time.monotonic() + 30
    while not (should_stop() and %s) and time.monotonic() < deadline:
        time.sleep(0.01)
    return runs.Run("runs/here", {"finished": False, "steps": 2048, "out": "runs/here"})
runs.run = run
arguments.check = lambda options: None
sys.exit(cli.main(["train", "--quiet"]))
"""


def stoppable(obeys: bool) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STOPPABLE % obeys]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_after_the_iteration_and_says_how_to_go_on(number: signal.Signals) -> None:
    process = stoppable(obeys=True)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert "focops resume runs/here" in said


def test_a_second_signal_stops_at_once() -> None:
    process = stoppable(obeys=False)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "once more stops at once" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM


def test_signals_mean_what_they_did_before_once_a_run_is_over(calls: Calls) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["train", "--quiet"]) == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_a_module_in_the_current_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "here_only.py").write_text("import gymnasium\ngymnasium.register('HereOnly-v0', 'nowhere:Nothing')\n")
    program = "import sys; sys.path.remove(''); from focops import cli; sys.exit(cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "train", "here_only:HereOnly-v0", "--cost-limit", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "nowhere" in done.stderr  # it was imported, and only its entry point is missing
    assert "here_only' cannot be imported" not in done.stderr
