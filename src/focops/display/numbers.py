"""Numbers as people read them."""

import numpy as np


def number(value: float | None) -> str:
    """About four digits; a dash for nothing."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return str(value)
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:z.4g}"


def count(value: float | None) -> str:
    """614400 as 614k."""
    if value is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"


def clock(seconds: float | None) -> str:
    """75 as 1:15."""
    if seconds is None:
        return "–"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def is_below(aim: float | None, limit: float) -> bool:
    """Whether a margin puts what is aimed at, a number of float32, below the limit."""
    return aim is not None and aim < float(np.float32(limit))
