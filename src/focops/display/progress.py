"""What a run shows while it trains: a live table in a terminal, plain lines elsewhere, one line if quiet."""

import sys
import time
from collections.abc import Collection, Sequence
from typing import Any, Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from focops.display.numbers import clock, count, is_below, number

Record = dict[str, Any]
PLAIN_SECONDS = 5.0
_SMOOTHING = 0.2


class Display(Protocol):
    """Shows one run. `stop` is called once, also when the run failed."""

    def start(self, config: Any, spec: Any) -> None: ...

    def update(self, record: Record) -> None: ...

    def note(self, message: str) -> None:
        """Show a line before the first iteration, or what is under way after the last."""
        ...

    def stop(self, message: str = "") -> None: ...


class ManyDisplay(Protocol):
    """Shows the runs of one program; None for those that have failed. `stop` is called once, also when all have."""

    def start(self, configs: Sequence[Any], spec: Any) -> None: ...

    def update(self, records: Sequence[Record | None]) -> None: ...

    def note(self, message: str) -> None:
        """Show a line before the first iteration, or what is under way after the last."""
        ...

    def stop(self) -> None: ...


class OneRun:
    """A run's display for a program of one run."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def start(self, configs: Sequence[Any], spec: Any) -> None:
        self._display.start(configs[0], spec)

    def update(self, records: Sequence[Record | None]) -> None:
        for record in records:
            if record is not None:
                self._display.update(record)

    def note(self, message: str) -> None:
        note = getattr(self._display, "note", None)  # one of the user's own may not have it
        if note is not None:
            note(message)

    def stop(self) -> None:
        self._display.stop()


def choose_display(quiet: bool = False) -> Display:
    """The display that suits the output: a terminal, or a file or pipe."""
    stream = sys.stdout
    if quiet:
        return QuietDisplay(stream)
    console = Console(file=stream, highlight=False)
    return LiveDisplay(console) if console.is_terminal and not console.is_dumb_terminal else PlainDisplay(stream)


class QuietDisplay:
    """The last record, as one line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._last, self._pace = stream, None, Pace()

    def start(self, config: Any, spec: Any) -> None: ...

    def update(self, record: Record) -> None:
        self._pace.update(record)
        self._last = record

    def note(self, message: str) -> None: ...

    def stop(self, message: str = "") -> None:
        if self._last is not None:
            print(line(self._last, self._pace), file=self._stream)
        if message:
            print(message, file=self._stream, flush=True)


class PlainDisplay:
    """The first and the last record, and one every few seconds, as lines."""

    def __init__(self, stream: TextIO, every_s: float = PLAIN_SECONDS) -> None:
        self._stream, self._every = stream, every_s
        self._pending: Record | None = None
        self._printed: float | None = None
        self._pace = Pace()

    def start(self, config: Any, spec: Any) -> None:
        print(title(config), file=self._stream, flush=True)

    def update(self, record: Record) -> None:
        self._pace.update(record)
        self._pending = record
        if self._printed is None or time.monotonic() - self._printed >= self._every:
            self._print()

    def note(self, message: str) -> None:
        if self._pending is not None:
            self._print()
        print(message, file=self._stream, flush=True)

    def stop(self, message: str = "") -> None:
        if self._pending is not None:
            self._print()
        if message:
            print(message, file=self._stream, flush=True)

    def _print(self) -> None:
        assert self._pending is not None
        print(line(self._pending, self._pace), file=self._stream, flush=True)
        self._pending, self._printed = None, time.monotonic()


class LiveDisplay:
    """A progress bar and the numbers that matter, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._title = ""
        self._began = time.monotonic()
        self._record: Record | None = None
        self._note: Spinner | None = None
        self._pace = Pace()
        self._sums = set[str]()
        self._compiling = Spinner("dots", " compiling and collecting the first batch")
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)

    def start(self, config: Any, spec: Any) -> None:
        self._title, self._began = title(config), time.monotonic()
        self._sums = {each.name for each in spec.constraints if each.discount == 1} if spec else set()
        self._live.start()

    def update(self, record: Record) -> None:
        self._pace.update(record)
        self._record = record

    def note(self, message: str) -> None:
        if self._record is None:
            self._console.print(message)
        else:
            self._note = Spinner("dots", f" {message}")

    def stop(self, message: str = "") -> None:
        self._note = None
        self._live.stop()
        if message:
            self._console.print(message)

    def _render(self) -> RenderableType:
        head = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        notes = [] if self._note is None else [self._note]
        if self._record is None:
            return Group(head, *(notes or [self._compiling]))
        elapsed = time.monotonic() - self._began
        rows = [_bar(self._record, self._pace, elapsed), _reward(self._record)]
        rows += [costs(self._record, self._sums)] if constraint_names(self._record) else []
        return Group(head, *rows, *notes)


class Pace:
    """A smoothed rate, and the time that is left at it."""

    def __init__(self, rate: float | None = None) -> None:
        self.rate = rate
        self._compiled = False

    def update(self, record: Record) -> None:
        rate = record.get("samples_per_second")
        if rate and self._compiled:  # the first iteration compiles: it says nothing about the others
            self.rate = rate if self.rate is None else self.rate + _SMOOTHING * (rate - self.rate)
        self._compiled |= bool(rate)

    def left(self, record: Record) -> float | None:
        return (record["steps"] - record["samples"]) / self.rate if self.rate else None


def title(config: Any) -> str:
    out = f" → {config.out}" if config.out else ""
    network = getattr(config.algo, "network", None)  # an algorithm from outside may have none
    shown = "" if network is None else f" · network {str(network).splitlines()[0]}"
    return f"{config.task} · {config.algorithm} · {config.preset} · seed {config.seed}{shown}{out}"


def constraint_names(record: Record) -> list[str]:
    return [key.partition("/")[2] for key in record if key.startswith("cost_limit/")]


def line(record: Record, pace: Pace) -> str:
    """A record as one plain line."""
    parts = [
        f"{count(record['samples'])}/{count(record['steps'])}",
        f"{count(pace.rate)}/s",
        f"left {clock(pace.left(record))}",
        f"return {number(record.get('return_mean'))}",
    ]
    for name in constraint_names(record):
        value = {key: number(record.get(f"{key}/{name}")) for key in _COST_KEYS}
        parts.append(
            f"{name} {value['discounted_cost_mean']} (J_C {value['cost_return_estimate']}, "
            f"limit {limit_and_aim(record, name)}, ν {value['nu']})"
        )
    parts += [f"KL {number(record.get('kl'))}", f"epochs {number(record.get('epochs'))}"]
    if record.get("diverged"):
        parts.append(f"diverged {record['diverged']}")
    return "  ".join(parts)


def limit_and_aim(record: Record, name: str) -> str:
    """The limit of a cost, and what is aimed at where that is below it by a margin."""
    limit, aim = record[f"cost_limit/{name}"], record.get(f"cost_aim/{name}")
    return number(limit) + (f", aim {number(aim)}" if is_below(aim, limit) else "")


_COST_KEYS = ("discounted_cost_mean", "cost_return_estimate", "cost_limit", "nu", "undiscounted_cost_mean")


def _bar(record: Record, pace: Pace, elapsed: float) -> RenderableType:
    done, total = record["samples"], record["steps"]
    row = Table.grid(padding=(0, 2), expand=True)
    row.add_column(ratio=1)
    row.add_column(no_wrap=True)
    times = f"[cyan]{clock(elapsed)}[/]  left [cyan]{clock(pace.left(record))}[/]"
    numbers = f"{count(done)} of {count(total)}  [cyan]{count(pace.rate)}/s[/]  {times}"
    row.add_row(ProgressBar(total=total, completed=done), Text.from_markup(numbers))
    return row


def _reward(record: Record) -> RenderableType:
    def pair(name: str, value: str) -> str:
        return f"{name} [bold]{value}[/]"

    region = record.get("trust_region")
    kl = number(record.get("kl")) + (f"[/] of {number(region)}[bold]" if region is not None else "")
    parts = [
        pair("return", number(record.get("return_mean"))),
        pair("length", number(record.get("episode_length_mean"))),
        pair("KL", kl),
        pair("epochs", number(record.get("epochs"))),
        pair("entropy", number(record.get("entropy"))),
    ]
    if record.get("diverged"):
        parts.append(f"[yellow]diverged {record['diverged']}[/]")
    return Text.from_markup("   ".join(parts), overflow="ellipsis")


def costs(record: Record, sums: Collection[str] = ()) -> RenderableType:
    """A row per constraint: its cost against its limit, green within it and red beyond. `sums` are those whose
    discount is 1."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("constraint", no_wrap=True, overflow="ellipsis")
    for heading in ("cost" if sums else "discounted cost", "J_C estimate", "limit", "", "ν"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in constraint_names(record):
        mean, estimate, limit, nu = (record.get(f"{key}/{name}") for key in _COST_KEYS[:4])
        verdict = estimate if mean is None else mean
        called = f"{name} (discounted)" if sums and name not in sums else name
        held = limit_and_aim(record, name)
        table.add_row(
            called, against(mean, limit), against(estimate, limit), held, _verdict(verdict, limit), number(nu)
        )
    return table


def against(value: float | None, limit: float | None) -> Text:
    """A cost coloured by its limit."""
    over = value is not None and limit is not None and value > limit
    return Text(number(value), style="dim" if value is None else "bold red" if over else "bold green")


def _verdict(value: float | None, limit: float | None) -> Text:
    if value is None or limit is None:
        return Text("")
    return Text("over", style="red") if value > limit else Text("within", style="green")
