"""What the tab key offers in each shell."""

import shutil
import subprocess

import pytest

from focops import cli

DRIVERS = {
    "bash": 'source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _focops; '
    "printf '%s\\n' \"${{COMPREPLY[@]}}\"",
    "zsh": 'compdef() {{ :; }}; compadd() {{ shift; print -l -- "$@"; }}; _files() {{ :; }}; '
    '_describe() {{ print -l -- ${{(P)2}}; }}; source {script}; words=({words}); CURRENT=$#words; '
    'PREFIX=$words[CURRENT]; _focops',
    "fish": "source {script}; complete -C '{line}'",
}  # fmt: skip
"""How to ask a shell what it would offer."""


@pytest.fixture(scope="module", params=list(DRIVERS))
def offered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """What the shell offers for the last of some words."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path_factory.mktemp("completion") / shell
    with pytest.MonkeyPatch.context() as patch, script.open("w") as file:
        patch.setattr("sys.stdout", file)
        assert cli.main(["completion", shell]) == 0

    def ask(line: str) -> set[str]:
        program = DRIVERS[shell].format(script=script, line=line, words=line if line[-1] != " " else f"{line}''")
        done = subprocess.run([shell, "-c", program], capture_output=True, text=True, check=True)
        return {word.split("\t")[0].split(":")[0] for word in done.stdout.split("\n")}

    return ask


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("focops ", set(cli.COMMANDS)),
        ("focops train --algo.te", {"--algo.temperature"}),
        ("focops train --algo pp", {"ppo", "ppo_lagrangian"}),
        ("focops train Half", {"HalfCheetahSpeed", "HalfCheetahVelocity"}),
        ("focops resume --algo.te", {"--algo.temperature"}),
        ("focops evaluate --ep", {"--episodes"}),
        ("focops study ci", {"circle"}),
        ("focops plot --", {"--x", "--out", "--help"}),
    ],
)
def test_the_tab_key_offers_commands_flags_tasks_and_algorithms(offered, line: str, expected: set[str]) -> None:
    assert offered(line) >= expected


def test_another_shell_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", "csh"]) == 2
    assert "bash" in capsys.readouterr().err


def test_every_command_tells_its_flags_without_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.COMMANDS:
        assert cli.main([name, "--help"]) == 0, name
        assert f"focops {name}" in capsys.readouterr().out
