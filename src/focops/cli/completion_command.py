"""`focops completion SHELL`: a script that completes commands, their flags, tasks and algorithms with the tab key.

The script holds all words itself: asking focops at every key would start Python, and for `train` JAX, each time.
"""

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NamedTuple

import tyro

from focops import cli

_FLAG = re.compile(r"(?<![\w-])--[a-z](?:[a-z0-9.-]*[a-z0-9])?")


class Command(NamedTuple):
    """A command, what it does, its flags, and words that it takes besides files."""

    name: str
    does: str
    flags: list[str]
    words: list[str]


class _Options(NamedTuple):
    """Print a script for tab completion. For bash:  focops completion bash >> ~/.bashrc

    For zsh:  focops completion zsh > DIR/_focops, a DIR of $fpath.
    For fish:  focops completion fish > ~/.config/fish/completions/focops.fish
    """

    shell: Annotated[tyro.conf.Positional[Literal["bash", "zsh", "fish"]], tyro.conf.arg(metavar="bash|zsh|fish")]
    """The shell that the script is for."""


def completion(words: list[str]) -> int:
    options = tyro.cli(_Options, args=words, prog="focops completion")
    scripts: dict[str, Callable[[Sequence[Command], Sequence[str]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    from focops.algorithms import ALGORITHMS

    print(scripts[options.shell](_commands(list(ALGORITHMS)), list(ALGORITHMS)), end="")
    return 0


def _commands(algorithms: Sequence[str]) -> list[Command]:
    from focops.envs.tasks import TASKS
    from focops.studies.definition import builtin

    tasks = [name.removesuffix("-v0") for name in TASKS]
    takes = {"train": tasks, "tune": tasks, "study": list(builtin()), "completion": ["bash", "zsh", "fish"]}
    train = {flag for algo in algorithms for flag in _flags("train", "--algo", algo)}
    flags = {name: _flags(name) for name in cli.COMMANDS}
    flags |= {"train": train, "resume": flags["resume"] | {flag for flag in train if flag.startswith("--algo.")}}
    return [
        Command(name, does, sorted(flags[name]), takes.get(name, [])) for name, (_, does, _) in cli.COMMANDS.items()
    ]


def _flags(*words: str) -> set[str]:
    """Those that the command's help names: the one place where every command tells them."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cli.main([*words, "--help"])
    return {"--help", *_FLAG.findall(printed.getvalue())}


def _bash(commands: Sequence[Command], algorithms: Sequence[str]) -> str:
    cases = "".join(
        f'        {c.name}) flags="{" ".join(c.flags)}"; words="{" ".join(c.words)}" ;;\n' for c in commands
    )
    return f"""_focops() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} flags= words=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{" ".join(c.name for c in commands)} --help --version" -- "$word"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}    esac
    if [ "$before" = --algo ]; then
        COMPREPLY=($(compgen -W "{" ".join(algorithms)}" -- "$word"))
    elif [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
    fi
}}
complete -o filenames -F _focops focops
"""


def _zsh(commands: Sequence[Command], algorithms: Sequence[str]) -> str:
    cases = "".join(
        f"        {c.name}) flags=({' '.join(c.flags)}); names=({' '.join(c.words)}) ;;\n" for c in commands
    )
    described = " ".join(f"{c.name}:{_quoted(c.does)}" for c in commands)
    return f"""#compdef focops
_focops() {{
    local -a flags names commands
    if (( CURRENT == 2 )); then
        commands=({described})
        _describe command commands
        return
    fi
    case $words[2] in
{cases}    esac
    if [[ $words[CURRENT-1] == --algo ]]; then
        compadd -- {" ".join(algorithms)}
    elif [[ $PREFIX == -* ]]; then
        compadd -- $flags
    else
        compadd -- $names
        _files
    fi
}}
# as a file of $fpath the first use runs this text, as a sourced one it only makes the function known
if [[ $funcstack[1] == _focops ]]; then _focops "$@"; else compdef _focops focops; fi
"""


def _fish(commands: Sequence[Command], algorithms: Sequence[str]) -> str:
    lines = []
    for command in commands:
        lines.append(f"complete -c focops -n __fish_use_subcommand -f -a {command.name} -d {_quoted(command.does)}")
        seen = f"complete -c focops -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{seen} -l {flag[2:]}" for flag in command.flags if (command.name, flag) != ("train", "--algo")]
        lines += [f"{seen} -a '{' '.join(command.words)}'"] if command.words else []
    lines.append(f"complete -c focops -n '__fish_seen_subcommand_from train' -l algo -x -a '{' '.join(algorithms)}'")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """For a shell, in single quotes; none of our texts has one inside."""
    return "'" + text.replace("'", "") + "'"
