"""Tables 1 and 2 of the FOCOPS paper (Zhang, Vuong, Ross; NeurIPS 2020): the only place where its figures are written.

Mean and half-width of the 95% interval over 10 seeds, of the last 100 training episodes: undiscounted reward,
discounted cost. One environment, MuJoCo of 2020.

Speed limits are half of what an unconstrained PPO pays after 1M samples (Humanoid: half of 40.28). The appendix gives
rewards as shares of that PPO's. On Humanoid these contradict Table 1: a share of 0.73 for PPO-L makes PPO's reward
645, one of 0.87 for FOCOPS 5200, and one of 0.68 for TRPO-L 6000.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """One algorithm on one task."""

    reward: float
    reward_interval: float
    cost: float
    cost_interval: float

    def reward_text(self) -> str:
        digits = 0 if self.reward > 100 else 1
        return f"{self.reward:.{digits}f} ± {self.reward_interval:.{digits}f}"

    def cost_text(self) -> str:
        return f"{self.cost:.1f} ± {self.cost_interval:.1f}"


SEEDS = 10
ALGORITHMS = ("ppo_lagrangian", "trpo_lagrangian", "cpo", "focops")
"""The columns of both tables, by our names."""

_ROWS: dict[str, tuple[tuple[float, float, float, float], ...]] = {
    "AntSpeed-v0": (
        (1291.4, 216.4, 98.78, 1.77),
        (1585.7, 77.5, 107.82, 1.16),
        (1406.0, 46.6, 100.25, 0.67),
        (1830.0, 22.6, 102.75, 1.08),
    ),
    "HalfCheetahSpeed-v0": (
        (1141.3, 192.4, 151.53, 1.88),
        (1621.59, 39.4, 164.93, 2.43),
        (1470.8, 40.0, 150.05, 1.40),
        (1612.2, 25.9, 152.36, 1.55),
    ),
    "HopperSpeed-v0": (
        (1433.8, 313.3, 81.29, 2.34),
        (750.3, 355.3, 87.57, 3.48),
        (1167.1, 257.6, 80.39, 1.39),
        (1953.4, 127.3, 81.84, 0.92),
    ),
    "HumanoidSpeed-v0": (
        (471.3, 49.0, 18.89, 0.77),
        (4062.4, 113.3, 19.23, 0.76),
        (3952.7, 174.4, 15.83, 0.41),
        (4529.7, 86.2, 18.63, 0.37),
    ),
    "SwimmerSpeed-v0": (
        (29.73, 3.13, 24.72, 0.85),
        (21.15, 9.56, 28.57, 2.68),
        (20.31, 6.01, 23.88, 0.64),
        (31.94, 2.60, 25.29, 1.49),
    ),
    "Walker2dSpeed-v0": (
        (2074.4, 155.7, 81.7, 1.14),
        (1153.1, 473.3, 80.79, 2.13),
        (1040.0, 303.3, 78.12, 1.78),
        (2485.9, 158.3, 81.27, 1.33),
    ),
    "AntCircle-v0": (
        (637.4, 88.2, 50.4, 4.4),
        (416.7, 42.1, 50.4, 3.9),
        (390.9, 43.9, 50.0, 3.5),
        (965.9, 46.2, 49.9, 2.2),
    ),
    "HumanoidCircle-v0": (
        (1024.5, 23.4, 50.3, 0.59),
        (697.5, 14.0, 49.6, 0.96),
        (671.0, 12.5, 47.9, 1.5),
        (1106.1, 32.2, 49.9, 0.8),
    ),
}

PAPER: dict[str, dict[str, Entry]] = {
    task: {name: Entry(*numbers) for name, numbers in zip(ALGORITHMS, row, strict=True)} for task, row in _ROWS.items()
}
"""By task, then by algorithm."""


def samples(task: str) -> str:
    """How long the paper trained on a task."""
    return "10M" if "Circle" in task else "1.02M"
