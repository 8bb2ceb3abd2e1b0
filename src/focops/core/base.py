"""The fields that every algorithm's Config has, and the network they describe."""

import math
from typing import Literal

from focops.core.fields import (
    Finite,
    Fraction,
    FractionBelow1,
    InnerFraction,
    NotNegative,
    Positive,
    Widths,
    pytree_config,
    static,
)
from focops.core.networks import MLP, NatureCNN, Network
from focops.core.spec import Spec


@pytree_config
class Config:
    """Advantages and critics. Defaults: Table 3 of the FOCOPS paper, where all algorithms share these."""

    value_rate: Positive = 3e-4
    """α_V: learning rate of the reward critic, annealed linearly to 0. > 0."""
    cost_value_rate: Positive = 3e-4
    """α_V: learning rate of the cost critics, annealed linearly to 0. > 0."""
    discount: InnerFraction = 0.99
    """γ: discount of the reward, in (0, 1)."""
    gae: Fraction = 0.95
    """β: GAE parameter of the reward, in [0, 1]."""
    cost_gae: Fraction = 0.95
    """β_C: GAE parameter of the costs, in [0, 1]."""
    value_units: bool = False
    """Critics in units of their targets: V = (targets' root mean square) · network. If not, as published, a network of
    small numbers takes long to reach values of hundreds."""
    value_l2: NotNegative = 3e-3
    """L2 coefficient on all parameters of the critics. ≥ 0."""
    init_log_std: Finite = -0.5
    """log σ at the start (continuous actions)."""
    std_units: bool = False
    """σ starts in units of the actions, e^init_log_std · (half an action's range): the same share of what each can do.
    If not, as published, the same σ for all."""
    hidden: Widths = static((64, 64))
    """Widths of the tanh layers of the policy and of each critic; of images, if not these, of the layers behind the
    convolutions in place of 512."""
    bootstrap_time_limit: bool = static(True)
    """Value the future beyond a time limit; if not, it counts as an end (V = 0)."""
    cost_estimator: Literal["ages", "episodes"] = static("ages")
    """J_C from all samples by age (fresh), or from episodes that ended in the batch (as published)."""
    settle: bool = False
    """As the policy's steps shrink, J_C remembers longer and the multiplier moves slower, each in proportion: the loop
    is as damped as before, and less noise comes through. If not, as published, the last policies swing as the first
    ones."""
    network: Network | None = static(None)
    """Another network than the MLP, or for images than the NatureCNN (from Python only)."""
    limits: tuple[float, ...] = ()
    """b: filled from the constraints."""
    cost_discounts: tuple[float, ...] = ()
    """γ_C: filled from the constraints."""
    updates: Positive = math.inf
    """Updates that the run makes in all: filled from its steps."""
    margin: FractionBelow1 = 0.0
    """By what share of each limit the policy stays below it: filled from `--margin`."""
    margin_errors: NotNegative = 0.0
    """And by how many standard errors of J_C."""
    margin_spread: NotNegative = 0.0
    """And by how many standard deviations of an episode's cost."""


FILLED = ("limits", "cost_discounts", "updates", "margin", "margin_errors", "margin_spread")
"""Fields that a run fills: nobody sets them."""


def network_for(config: Config, spec: Spec, task: str) -> Network | None:
    """The network that is given, or the one for images; None for an MLP."""
    if config.network is not None or spec.image is None:
        return config.network
    chosen = NatureCNN(spec.image) if config.hidden == Config.hidden else NatureCNN(spec.image, config.hidden)
    chosen.require_size(task)
    return chosen


def network(config: Config) -> Network:
    return MLP(config.hidden) if config.network is None else config.network
