"""The model card of a run: what the policy is for, what was found of it, how it was trained and how to load it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from focops import envs
from focops.algorithms import ALGORITHMS, is_constrained
from focops.cli import commands
from focops.cli.hub_upload import MISSING
from focops.display.numbers import number
from focops.display.summary import verdict
from focops.errors import UsageError
from focops.runs.directory import RunDirectory
from focops.runs.portable import summary_of

HOW = {"sampled": "sampled actions", "mean_action": "mean actions"}
"""The two evaluations, as the card calls them."""


@dataclass(frozen=True)
class Card:
    """What a card tells."""

    run: RunDirectory
    evaluation: dict[str, Any] | None
    """As `policy` in summary.json."""
    source: str
    """Where others load it from: zoo:NAME, or USER/REPO."""
    video: str | None = None
    """A file beside the card."""
    license: str = "mit"
    note: str = ""
    """Of the evaluation, if there is more to say."""

    @property
    def task(self) -> str:
        return str(self.summary["task"])

    @property
    def summary(self) -> dict[str, Any]:
        return summary_of(self.run)

    @property
    def limits(self) -> dict[str, float]:
        return self.summary["cost_limit"]

    @property
    def keeps_limits(self) -> bool:
        """Whether training looked at limits; PPO and TRPO only measure the costs."""
        algo = self.summary["algo"]
        return bool(self.limits) and (algo not in ALGORITHMS or is_constrained(algo))


def content(card: Card) -> str:
    """The card as Markdown under YAML metadata, in the Hub's schema."""
    try:
        from huggingface_hub import EvalResult, ModelCard, ModelCardData
    except ImportError:
        raise UsageError(MISSING) from None
    constrained = ["safe-reinforcement-learning", "constrained-reinforcement-learning"] * card.keeps_limits
    tags = ["reinforcement-learning", *constrained, "jax"]
    dataset = {"dataset_name": card.task, "dataset_type": card.task}
    kind = {"task_type": "reinforcement-learning", "task_name": "constrained reinforcement learning"}
    data = ModelCardData(
        library_name="focops",
        pipeline_tag="reinforcement-learning",
        license=card.license,
        tags=[*tags, card.summary["algo"], card.task],
        model_name=f"{card.summary['algo']}-{card.task}",
        eval_results=[EvalResult(**kind, **dataset, **metric) for metric in _metrics(card)],
    )
    if not card.evaluation:  # without results the Hub knows no name
        data.model_name = data.eval_results = None
    made = ModelCard(f"---\n{data.to_yaml()}\n---\n\n{_text(card)}\n")
    return str(made)


def _metrics(card: Card) -> Iterator[dict[str, Any]]:
    """Reward and costs with each way to act, as entries of the model-index."""
    evaluation = card.evaluation or {}
    for acting, how in HOW.items() if evaluation else ():
        found = evaluation[acting]
        args = {"episodes": found["episodes"], "confidence": evaluation["confidence"]}
        interval = found.get("reward_interval")
        yield {
            "metric_type": "mean_reward", "metric_name": f"mean_reward ({how})", "metric_value": found["reward"],
            "metric_args": args | {"interval": interval},
        }  # fmt: skip
        for name, cost in found["discounted_cost"].items():
            told = {"interval": found["discounted_cost_interval"][name], "limit": found["cost_limit"][name]}
            told |= {"discount": _discount(card, name), "verdict": found["verdict"][name]}
            yield {
                "metric_type": "cost_return", "metric_name": f"J_C of {name} ({how})", "metric_value": cost,
                "metric_args": args | told,
            }  # fmt: skip


def _discount(card: Card, name: str) -> float | None:
    return card.summary.get("cost_discount", {}).get(name)


def _text(card: Card) -> str:
    summary = card.summary
    within = " while its costs stay within their limits" if card.keeps_limits else " alone" * bool(card.limits)
    algo = summary["algo"]
    parts = [
        f"# {card.task} by {algo}",
        f"A policy for `{card.task}`, trained to maximise reward{within}. Library: focops; algorithm: `{algo}`"
        f"{', which does not look at costs' * bool(card.limits and not card.keeps_limits)}.",
        *_verdicts(card),
    ]
    if card.video:
        parts.append(f'<video src="{card.video}" controls autoplay loop muted></video>')
    parts += ["## Task", *_task(card), "## Evaluation", *_evaluation(card)]
    parts += ["## Training", *_training(card), "## Use", _use(card)]
    return "\n\n".join(parts)


def _verdicts(card: Card) -> Iterator[str]:
    """What is known of the limits, the worse said as plainly as the better."""
    if card.evaluation is None:
        why = card.summary.get("not_evaluated") or "the run is not finished"
        yield f"**Nothing is known of this policy's costs: it was not evaluated** ({why})."
    elif card.limits:
        yield "\n".join(f"- {_said(card.evaluation[acting], how)}" for acting, how in HOW.items())


def _said(found: dict[str, Any], how: str) -> str:
    """Of one way to act."""
    worst, opening = verdict(found), f"With **{how}**"
    costs = [name for name, judged in found["verdict"].items() if judged == worst]
    cost, limit = found["discounted_cost"], found["cost_limit"]
    numbers = ", ".join(f"`{name}` {number(cost[name])}, limit {number(limit[name])}" for name in costs)
    episodes = f"{found['episodes']} unseen episodes"
    if worst == "satisfied":
        return f"{opening} the limits were **satisfied** on {episodes} ({numbers})."
    if worst == "violated":
        return f"{opening} a limit was **violated** on {episodes} ({numbers}). Do not act so where the limit matters."
    return (
        f"{opening} {episodes} leave it **undecided** whether the limits are kept ({numbers}). Do not rely on it where"
        " the limit matters."
    )


def _task(card: Card) -> Iterator[str]:
    task = envs.find(card.task)
    if task is not None:
        own = f'`gymnasium.make("focops/{task.name}")` after `import focops`'
        yield f"One of the tasks that come with focops, with episodes of at most {task.time_limit} steps: {own}."
    else:
        yield f"The Gymnasium environment `{card.task}`, which does not come with focops."
    if not card.limits:
        yield "It has no constraint."
        return
    rows = ["| constraint | limit | discount | what is limited |", "|---|---:|---:|---|"]
    for name, limit in card.limits.items():
        discount = _discount(card, name)
        plain = "the expected sum of costs over an episode"
        what = plain if discount == 1 else f"the expected Σ {_given(discount)}^t · cost over an episode"
        rows.append(f"| `{name}` | {number(limit)} | {_given(discount)} | J_C, {what} |")
    yield "\n".join(rows)
    yield "A limit is on the mean over episodes: single episodes may cost more."


def _given(discount: float | None) -> str:
    return "γ_C" if discount is None else f"{discount:g}"


def _evaluation(card: Card) -> Iterator[str]:
    if card.evaluation is None:
        yield "None. Evaluate it before use:  `focops evaluate DIR`"
        return
    found = [card.evaluation[acting] for acting in HOW]
    percent = f"{100 * card.evaluation['confidence']:g}%"
    physics = " with MJX's physics in float32," * (card.evaluation.get("backend") == "mjx")
    row = lambda name, *cells: f"| {' | '.join([name, *cells])} |"
    rows = [row("", *HOW.values()), "|---|---:|---:|"]
    rows.append(row("reward", *[_mean(each["reward"], each.get("reward_interval")) for each in found]))
    for name in card.limits:
        cost = [_mean(each["discounted_cost"][name], each["discounted_cost_interval"][name]) for each in found]
        rows.append(row(f"`{name}`: J_C", *cost))
        if _discount(card, name) != 1:
            rows.append(row(f"`{name}`: undiscounted cost", *[number(e["undiscounted_cost"][name]) for e in found]))
        rows.append(row(f"`{name}`: limit", *[number(each["cost_limit"][name]) for each in found]))
        rows.append(row(f"`{name}`: verdict", *[f"**{each['verdict'][name]}**" for each in found]))
    rows.append(row("episode length", *[number(each["episode_length"]) for each in found]))
    rows.append(row("episodes", *[str(each["episodes"]) for each in found]))
    yield "\n".join(rows)
    yield (
        f"On episodes that training never saw,{physics} with {percent} intervals of the means."
        f" *satisfied*: the upper {percent} confidence bound of J_C is within the limit; *violated*: the lower bound is"
        " above it; *undecided*: neither." + f" {card.note}" * bool(card.note)
    )


def _mean(value: float, interval: Any) -> str:
    return number(value) + (f" [{number(interval[0])}, {number(interval[1])}]" if interval else "")


def _training(card: Card) -> Iterator[str]:
    summary = card.summary
    try:
        yield f"```sh\n{commands.train(card.run.config)}\n```"
    except UsageError as error:
        yield f"Trained from Python; no command repeats it ({error})."
    if card.run.changes:
        yield f"Changed on resuming: `{card.run.changes}`. The command has the values since then."
    unfinished = "" if summary["finished"] else ", **stopped before its end**"
    yield f"{summary['steps']:,} samples in {summary['wall_s']:.0f} s, seed {summary['seed']}{unfinished}."
    evaluation = card.evaluation or {}
    if evaluation.get("chosen_from", 1) > 1:
        yield (
            f"The policy is that of iteration {evaluation['iteration']}, chosen by other episodes from"
            f" {evaluation['chosen_from']} policies of the run's end."
        )
    versions = {name: version for name, version in card.run.versions.items() if name not in ("platform", "machine")}
    yield "Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."


def _use(card: Card) -> str:
    if card.source.startswith("zoo:"):
        return f"""```python
import focops

policy = focops.load("{card.source}")
action = policy.predict(observation)    # sampled; deterministic=True for the mean action
```"""
    return f"""```python
import focops
from huggingface_hub import snapshot_download

policy = focops.load(snapshot_download("{card.source}"))
action = policy.predict(observation)    # sampled; deterministic=True for the mean action
```

`focops evaluate DIR` runs it on unseen episodes, where DIR is the directory that was downloaded."""
