"""Problems to solve: random ones, gridworlds with hazards, and admission control of a queue."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from focops.errors import UsageError
from focops.tabular.cmdp import CMDP, grid_cells
from focops.tabular.exact_values import evaluate

MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
_CELLS = "S start, G goal, H hazard, # wall, . free"


def garnet(
    states: int,
    actions: int,
    costs: int = 1,
    *,
    branching: int = 3,
    discount: float = 0.9,
    tightness: float = 0.9,
    seed: int = 0,
) -> CMDP:
    """A random problem: each (state, action) leads to `branching` random states, rewards and costs uniform in [0, 1].

    The limits are `tightness` times what the uniform policy costs, so from 1 on that policy is feasible.
    """
    if not 1 <= branching <= states:
        raise UsageError(f"branching is {branching}; it must be in [1, {states}], the number of states")
    rng = np.random.default_rng(seed)
    rows = states * actions
    successors = np.argpartition(rng.random((rows, states)), branching - 1, 1)[:, :branching] if states <= 100 else None
    if successors is None:  # with repetition, which is rare among many states and then adds up
        successors = rng.integers(states, size=(rows, branching))
    weights = rng.dirichlet(np.ones(branching), rows)
    transition = sp.csr_array(
        (weights.ravel(), (np.repeat(np.arange(rows), branching), successors.ravel())), shape=(rows, states)
    )
    reward, cost = rng.random((states, actions)), rng.random((states, actions, costs))
    problem = CMDP(transition, reward, cost, rng.dirichlet(np.ones(states)), np.zeros(costs), discount)
    limits = tightness * evaluate(problem, problem.uniform()).cost_return
    return CMDP(problem.transition, reward, cost, problem.start, limits, discount)


def gridworld(grid: Sequence[str], *, limit: float = 0.1, slip: float = 0.1, discount: float = 0.95) -> CMDP:
    """A map (S start, G goal, H hazard, # wall, . free) and four moves, which slip sideways with probability `slip`.

    Reaching a goal pays 1 and ends; entering a hazard costs 1. Several starts are equally likely.
    """
    rows = [row for row in grid if row]
    letters = {letter for row in rows for letter in row}
    if not rows:
        raise UsageError("the grid is empty; give its rows, e.g. ['S.', '.G']")
    if letters - set("SGH#."):
        raise UsageError(f"the grid has a cell {min(letters - set('SGH#.'))!r}; there are: {_CELLS}")
    if not {"S", "G"} <= letters:
        raise UsageError(f"a grid needs a start and a goal; cells are: {_CELLS}")
    if not 0 <= slip <= 1:
        raise UsageError(f"slip is {slip}; it must be in [0, 1]")
    cells = grid_cells(rows)
    index = {cell: s for s, cell in enumerate(cells)}
    kind = np.array([rows[i][j] for i, j in cells])
    entries = []
    for s, (i, j) in enumerate(cells):
        for a, (di, dj) in enumerate(MOVES.values()):
            for (step_i, step_j), p in (((di, dj), 1 - slip), ((dj, di), slip / 2), ((-dj, -di), slip / 2)):
                successor = s if kind[s] == "G" else index.get((i + step_i, j + step_j), s)
                entries.append((p, s * len(MOVES) + a, successor))
    p, row, successor = map(np.array, zip(*entries, strict=True))
    into = sp.csr_array((p, (row, successor)), shape=(len(cells) * len(MOVES), len(cells)))
    alive = (kind != "G")[:, None]
    reward, cost = ((into @ (kind == letter)).reshape(-1, len(MOVES)) * alive for letter in "GH")
    start = (kind == "S") / np.sum(kind == "S")
    return CMDP(
        into, reward, cost[..., None], start, np.array([limit]), discount,
        names=("hazard",), action_names=tuple(MOVES), grid=tuple(rows),
    )  # fmt: skip


def queue(
    capacity: int = 10,
    *,
    arrivals: Sequence[float] = (0.0, 0.25, 0.5),
    services: Sequence[float] = (0.2, 0.6),
    limits: Sequence[float] = (25.0, 7.0),
    discount: float = 0.95,
) -> CMDP:
    """Admission and service control of one queue (as in Altman, Constrained Markov Decision Processes, ch. 5).

    In each slot the controller chooses the probability of an arrival and of completing a service. An admitted customer
    pays 1; the costs are the queue's length (delay) and the service speed in use (effort).
    """
    for name, values in (("arrivals", arrivals), ("services", services)):
        if not values or not all(0 <= p <= 1 for p in values):
            raise UsageError(f"{name} is {list(values)}; it must be probabilities, at least one")
    if capacity < 1:
        raise UsageError(f"capacity is {capacity}; it must be at least 1")
    choices = [(a, b) for a in arrivals for b in services]
    shape = (capacity + 1, len(choices))
    transition, reward, cost = np.zeros((*shape, capacity + 1)), np.zeros(shape), np.zeros((*shape, 2))
    for x in range(capacity + 1):
        for u, (arrive, serve) in enumerate(choices):
            arrive = arrive if x < capacity else 0.0
            leave = serve if x > 0 else 0.0
            transition[x, u, min(x + 1, capacity)] += arrive * (1 - leave)
            transition[x, u, max(x - 1, 0)] += leave * (1 - arrive)
            transition[x, u, x] += arrive * leave + (1 - arrive) * (1 - leave)
            reward[x, u] = arrive
            cost[x, u] = x, serve
    return CMDP(
        transition, reward, cost, np.eye(capacity + 1)[0], np.array(limits), discount, names=("delay", "effort"),
        action_names=[f"arrive {a:g} serve {b:g}" for a, b in choices],
    )  # fmt: skip
