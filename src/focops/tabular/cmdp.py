"""A finite constrained Markov decision process as one validated value."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, no_type_check

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from focops.errors import UsageError

_SUM = 1e-8
"""How far a row of probabilities may be from summing to 1 (it is then scaled to sum to 1)."""


@no_type_check  # lists are welcome: what is given is made into what the annotations say
@dataclass(frozen=True, eq=False)
class CMDP:
    """Maximise J(π) = E Σ γ^t r(s_t, a_t) subject to J_Ci(π) = E Σ γ_Ci^t c_i(s_t, a_t) ≤ b_i, i = 1 … m.

    S states, A actions in every state. An end of the episode is a state that leads only to itself and pays nothing.
    """

    transition: Any
    """P(s'|s,a): an array [S, A, S], or a SciPy sparse one [S·A, S] with row s·A + a; kept sparse."""
    reward: Float[np.ndarray, "S A"]
    cost: Float[np.ndarray, "S A m"]
    start: Float[np.ndarray, "S"]
    """μ: the distribution of the first state."""
    limits: Float[np.ndarray, "m"]
    """b"""
    discount: float = 0.99
    """γ of the reward, in (0, 1)."""
    cost_discounts: Float[np.ndarray, "m"] = None  # type: ignore[assignment]  # filled in
    """γ_C of each cost, in (0, 1); γ if not given."""
    names: Sequence[str] = ()
    """Of the constraints; cost_0 … if not given."""
    action_names: Sequence[str] = ()
    """a0 … if not given."""
    grid: Sequence[str] = ()
    """The map this was made from, where it is a gridworld: one state per cell that is not a wall, row by row."""

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)
        reward, cost = _numbers("reward", self.reward, 2), _numbers("cost", self.cost, 3)
        num_states, num_actions, m = cost.shape
        _require(reward.shape == (num_states, num_actions), f"reward {reward.shape} and cost {cost.shape} do not match")
        _require(num_states >= 1 and num_actions >= 1, "there must be at least one state and one action")
        put("reward", reward)
        put("cost", cost)
        put("transition", _transition(self.transition, num_states, num_actions))
        put("start", _start(self.start, num_states))
        put("limits", _numbers("limits", self.limits, 1))
        put("discount", float(self.discount))
        given = [self.discount] * m if self.cost_discounts is None else self.cost_discounts
        put("cost_discounts", _numbers("cost_discounts", given, 1))
        put("names", _words("names", self.names) or (("cost",) if m == 1 else tuple(f"cost_{i}" for i in range(m))))
        put("action_names", _words("action_names", self.action_names) or tuple(f"a{i}" for i in range(num_actions)))
        put("grid", _words("grid", self.grid))
        for what, values in (("limits", self.limits), ("cost_discounts", self.cost_discounts), ("names", self.names)):
            _require(len(values) == m, f"{what} has {len(values)} entries, there are {m} costs: give one for each")
        _require(len(self.action_names) == num_actions, f"action_names must have {num_actions} entries")
        if self.grid:
            n = len(grid_cells(self.grid))
            _require(n == num_states, f"grid has {n} cell(s) that are no walls, there are {num_states} states")
        for value in (self.discount, *self.cost_discounts.tolist()):
            _require(0 < value < 1, f"a discount is {value}; it must be in (0, 1)")

    @property
    def num_states(self) -> int:
        return self.reward.shape[0]

    @property
    def num_actions(self) -> int:
        return self.reward.shape[1]

    @property
    def num_costs(self) -> int:
        return self.cost.shape[2]

    def uniform(self) -> Float[np.ndarray, "S A"]:
        """The uniform policy."""
        return np.full(self.reward.shape, 1 / self.num_actions)

    def one_discount(self, what: str) -> float:
        """γ, which all costs must share: the paper's theory and the linear program use one visitation d^π."""
        if np.any(self.cost_discounts != self.discount):
            raise UsageError(
                f"{what} needs one discount for the reward and all costs, but γ = {self.discount:g} and γ_C ="
                f" {', '.join(f'{g:g}' for g in self.cost_discounts)}: with several, no stationary policy need be"
                " optimal. Give all the same; `evaluate` takes any"
            )
        return self.discount


def grid_cells(grid: Sequence[str]) -> list[tuple[int, int]]:
    """(row, column) of each state."""
    _require(len(set(map(len, grid))) <= 1, "a grid must be rows of equal length, e.g. ['S.', '.G']")
    return [(i, j) for i, row in enumerate(grid) for j, letter in enumerate(row) if letter != "#"]


def policy_table(cmdp: CMDP, policy: Any) -> Float[np.ndarray, "S A"]:
    """`policy` as π(a|s), checked."""
    table = _numbers("policy", policy, 2)
    _require(table.shape == cmdp.reward.shape, f"the policy is {table.shape}; it must be {cmdp.reward.shape}")
    _check_rows("the policy's row", table)
    return table / table.sum(1, keepdims=True)


def _transition(given: Any, num_states: int, num_actions: int) -> sp.csr_array:
    rows = num_states * num_actions
    if not sp.issparse(given):
        dense = _numbers("transition", given, 3)
        shape = (num_states, num_actions, num_states)
        _require(dense.shape == shape, f"transition is {dense.shape}; it must be {shape}")
        given = dense.reshape(rows, num_states)
    matrix = sp.csr_array(given, dtype=np.float64)
    _require(matrix.shape == (rows, num_states), f"transition is {matrix.shape}; it must be {(rows, num_states)}")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    _require(bool(np.isfinite(matrix.data).all()), "transition holds a number that is not finite")
    total = matrix.sum(1)
    bad = np.flatnonzero((np.abs(total - 1) > _SUM) | (matrix.min(axis=1).toarray().ravel() < 0))
    if bad.size:
        s, a = divmod(int(bad[0]), num_actions)
        raise UsageError(
            f"transition of state {s}, action {a} sums to {total[bad[0]]:.9g} with least entry"
            f" {matrix[[bad[0]], :].min():g}; it must be probabilities that sum to 1"
        )
    return sp.csr_array(sp.diags_array(1 / total) @ matrix)


def _start(given: Any, num_states: int) -> Float[np.ndarray, "S"]:
    start = _numbers("start", given, 1)
    _require(start.shape == (num_states,), f"start is {start.shape}; it must be ({num_states},)")
    _check_rows("start", start[None])
    return start / start.sum()


def _check_rows(what: str, rows: Float[np.ndarray, "N K"]) -> None:
    bad = np.flatnonzero((np.abs(rows.sum(1) - 1) > _SUM) | (rows < 0).any(1))
    if bad.size:
        raise UsageError(
            f"{what} {int(bad[0])} is {np.array2string(rows[bad[0]], threshold=8)}; it must be probabilities"
            " that sum to 1"
        )


def _words(what: str, given: Any) -> tuple:
    fits = isinstance(given, list | tuple) and all(isinstance(word, str) for word in given)
    _require(fits, f"{what} is {given!r}; it must be a list of strings")
    return tuple(given)


def _numbers(what: str, given: Any, dimensions: int) -> np.ndarray:
    try:
        array = np.array(given, np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} is not an array of numbers: {error}") from error
    _require(array.ndim == dimensions, f"{what} has shape {array.shape}; it must have {dimensions} dimension(s)")
    _require(bool(np.isfinite(array).all()), f"{what} holds a number that is not finite")
    array.flags.writeable = False
    return array


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise UsageError(message)
