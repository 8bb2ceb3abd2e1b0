"""`focops card`: a run's model card for the Hugging Face Hub, and its upload."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from focops.cli.arguments import Count
from focops.errors import UsageError


@dataclass(frozen=True)
class CardOptions:
    """Write a model card: task, constraints, evaluation with a verdict on each, how it was trained, how to load it."""

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """The directory of a run that has ended, or zoo:NAME."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: README.md in RUN)")] = None
    """The card: a .md file, or a directory for README.md in it."""
    push: Annotated[str | None, tyro.conf.arg(metavar="USER/REPO", help_behavior_hint="")] = None
    """Upload the policy with its card, config and summary, and the newest .mp4 in RUN, to this repository of the Hub
    (at HF_ENDPOINT, with the token of `hf auth login` or HF_TOKEN)."""
    episodes: Annotated[Count, tyro.conf.arg(help_behavior_hint="(default: as evaluated when the run ended)")] = 0
    """Evaluate the policy anew for the card: so many episodes with sampled and with mean actions."""
    license: str = "mit"
    """Of the policy, as the Hub spells it."""


def card(words: list[str]) -> int:
    options = tyro.cli(CardOptions, args=words, prog="focops card")
    from focops import zoo
    from focops.cli import hub_upload, model_card
    from focops.runs.directory import RunDirectory
    from focops.runs.portable import portable_files, summary_of

    run = RunDirectory.open(options.run, lock=False)
    is_zoo = zoo.is_named(options.run)
    file = _file(options, run.path, is_zoo)
    files = portable_files(run)
    if options.push is not None:
        hub_upload.check_repo(options.push)
    video = max(run.path.glob("*.mp4"), key=lambda each: each.stat().st_mtime, default=None)
    found = _evaluated(options) if options.episodes else summary_of(run)["policy"]
    source = str(options.run) if is_zoo and not options.push else options.push or "USER/REPO"
    made = model_card.content(model_card.Card(run, found, source, video and video.name, options.license))
    _write(file, made)
    print(f"written to {file}")
    if options.push is not None:
        files["README.md"] = made.encode()
        if video is not None:
            files[video.name] = video.read_bytes()
        print(f"uploaded {', '.join(files)} to {hub_upload.upload(options.push, files)}")
    return 0


def _file(options: CardOptions, run: Path, is_zoo: bool) -> Path:
    out = options.out
    if out is None:
        if is_zoo:
            raise UsageError(f"{options.run} has its card, {run / 'README.md'}; give --out FILE for another")
        return run / "README.md"
    if out.is_dir() or not out.suffix:
        return out / "README.md"
    if out.suffix != ".md":
        raise UsageError(f"--out is {out}; its ending must be .md, or it must be a directory")
    return out


def _evaluated(options: CardOptions) -> dict[str, Any]:
    from focops.evaluation import evaluate
    from focops.evaluation.final import described

    if options.episodes < 2:
        raise UsageError(f"--episodes is {options.episodes}; it must be ≥ 2")
    return described(*[evaluate(options.run, episodes=options.episodes, deterministic=mean) for mean in (False, True)])


def _write(file: Path, text: str) -> None:
    from focops.runs.files import write_atomically

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}; name another with --out") from error
