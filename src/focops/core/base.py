"""The fields that every algorithm's Config has, and the network they describe."""

from typing import Literal

from focops.core.config import pytree_config, static
from focops.core.networks import MLP, Network


@pytree_config
class Config:
    """Advantages and critics. Defaults: Table 3 of the FOCOPS paper, where all algorithms share these."""

    value_rate: float = 3e-4
    """α_V: learning rate of the reward critic, annealed linearly to 0. > 0."""
    cost_value_rate: float = 3e-4
    """α_V: learning rate of the cost critics, annealed linearly to 0. > 0."""
    discount: float = 0.99
    """γ: discount of the reward, in (0, 1)."""
    gae: float = 0.95
    """β: GAE parameter of the reward, in [0, 1]."""
    cost_gae: float = 0.95
    """β_C: GAE parameter of the costs, in [0, 1]."""
    value_units: float = 0.0
    """How far critics count in units of their targets: V = (targets' root mean square)^this · network. 0, as published,
    lets a network of small numbers take long to reach values of hundreds. In [0, 1]."""
    value_l2: float = 3e-3
    """L2 coefficient on all parameters of the critics. ≥ 0."""
    init_log_std: float = -0.5
    """log σ at the start (continuous actions)."""
    std_units: float = 0.0
    """How far σ starts in units of the actions: σ = e^init_log_std · (half an action's range)^this. 0, as published, is
    the same σ for all; 1 the same share of what each action can do. In [0, 1]."""
    hidden: tuple[int, ...] = static((64, 64))
    """Widths of the tanh layers of the policy and of each critic."""
    bootstrap_time_limit: bool = static(True)
    """Value the future beyond a time limit; if not, it counts as an end (V = 0)."""
    cost_estimator: Literal["ages", "episodes"] = static("ages")
    """J_C from all samples by age (fresh), or from episodes that ended in the batch (as published)."""
    network: Network | None = static(None)
    """Another network than the MLP (from Python only)."""
    limits: tuple[float, ...] = ()
    """b: filled from the constraints."""
    cost_discounts: tuple[float, ...] = ()
    """γ_C: filled from the constraints."""


def network(config: Config) -> Network:
    return MLP(config.hidden) if config.network is None else config.network
