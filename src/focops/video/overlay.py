"""The panel in the corner of a picture: return, and each cost against its limit."""

from typing import Any

import numpy as np

from focops.core.spec import Constraint
from focops.display.numbers import number
from focops.errors import UsageError
from focops.video.episodes import Moment

_WITHIN, _ABOVE = (46, 160, 67), (218, 54, 51)
_TEXT, _DIM, _PANEL, _EMPTY = (255, 255, 255), (200, 208, 216), (18, 24, 32, 190), (70, 80, 92)
_ABOVE_TEXT = (255, 123, 114)
"""Red that can be read on the panel."""
_ROOM = 1.25
"""The end of a bar, in limits."""


def imported() -> Any:
    try:
        import imageio_ffmpeg  # noqa: F401 - for mp4
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise UsageError(f"a video needs {error.name}: pip install 'focops[video]'") from error
    return Image, ImageDraw, ImageFont


class Overlay:
    """Draws the panel into pictures of one size."""

    def __init__(self, title: str, constraints: tuple[Constraint, ...], episodes: int, size: tuple[int, int]) -> None:
        self._image, self._draw, fonts = imported()
        self._constraints, self._episodes, self.size = constraints, episodes, size
        self._unit = unit = max(11, round(size[1] / 28))
        self._large, self._small = fonts.load_default(1.15 * unit), fonts.load_default(0.85 * unit)
        self._width = min(22 * unit, size[0] - 2 * unit)
        room = self._width - 1.6 * unit
        self._title = next(title[:n] for n in range(len(title), -1, -1) if self._large.getlength(title[:n]) <= room)

    def __call__(self, moment: Moment) -> np.ndarray:
        """The picture [height, width, 3] with the panel, of the size that was asked for."""
        image = self._image.fromarray(moment.picture)
        if image.size != self.size:
            image = image.resize(self.size, self._image.Resampling.LANCZOS)
        unit, m = self._unit, len(self._constraints)
        height = round(4.5 * unit + m * 4.1 * unit)
        draw = self._draw.Draw(image, "RGBA")
        left, top, right = unit, unit, unit + self._width
        draw.rounded_rectangle((left, top, right, top + height), round(0.6 * unit), _PANEL)  # a fraction would overlap
        left, right, y = left + 0.8 * unit, right - 0.8 * unit, top + 0.6 * unit
        draw.text((left, y), self._title, _TEXT, self._large)
        y += 1.9 * unit
        which = f"episode {moment.episode + 1} of {self._episodes}   " * (self._episodes > 1)
        draw.text((left, y + 0.2 * unit), f"{which}step {moment.step}", _DIM, self._small)
        draw.text((right, y), f"return {number(float(moment.sums[0]))}", _TEXT, self._large, anchor="ra")
        y += 2.1 * unit
        for i, constraint in enumerate(self._constraints):
            self._bar(draw, constraint, moment.sums[1 + i], moment.sums[1 + m + i], (left, y, right))
            y += 4.1 * unit
        return np.asarray(image)

    def _bar(self, draw: Any, constraint: Constraint, cost: float, plain: float, place: tuple) -> None:
        unit, (left, y, right) = self._unit, place
        above = cost > constraint.limit
        colour = _ABOVE if above else _WITHIN
        name = f"cost {constraint.name}" if constraint.name != "cost" else "cost"
        draw.text((left, y), name, _TEXT, self._large)
        value = f"{number(float(cost))} / {number(float(constraint.limit))}"
        draw.text((right, y), value, _ABOVE_TEXT if above else _TEXT, self._large, anchor="ra")
        bar = y + 1.6 * unit
        end = _ROOM * constraint.limit
        share = min(cost / end, 1.0) if end > 0 else float(cost > 0)
        draw.rounded_rectangle((left, bar, right, bar + 0.7 * unit), 0.3 * unit, _EMPTY)
        if share > 0:
            draw.rounded_rectangle(
                (left, bar, left + max(share * (right - left), 0.6 * unit), bar + 0.7 * unit), 0.3 * unit, colour
            )
        limit = left + (right - left) / _ROOM
        draw.line((limit, bar - 0.25 * unit, limit, bar + 0.95 * unit), _TEXT, max(2, round(unit / 8)))
        note = f"discounted by {constraint.discount:g}; plain sum {number(float(plain))}"
        if constraint.discount == 1:
            note = "sum of the episode"
        draw.text((left, bar + 1.05 * unit), note, _DIM, self._small)
        if above:
            draw.text((right, bar + 1.05 * unit), "above its limit", _ABOVE_TEXT, self._small, anchor="ra")
