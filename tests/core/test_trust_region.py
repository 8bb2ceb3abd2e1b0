"""Second-order steps against dense linear algebra and SciPy's SLSQP."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from focops.core import policy, trust_region
from focops.core.networks import MLP
from focops.core.spec import Spec

solve, project = jax.jit(trust_region.solve), jax.jit(trust_region.project)


def dense(theta, obs, net):
    """H by plain second derivatives of the mean KL."""
    flat, unravel = ravel_pytree(theta)
    old = policy.distribution(net, theta, obs)
    kl = lambda f: jnp.mean(policy.distribution(net, unravel(f), obs).kl(old))
    return np.asarray(jax.jit(jax.hessian(kl))(flat)), flat, unravel


@pytest.mark.parametrize(("discrete", "nvec"), [(False, None), (True, None), (True, (1, 3))])
def test_the_fisher_product_is_the_kls_hessian_and_cg_solves_with_it(discrete, nvec):
    spec, net = Spec(3, 4, discrete, (), 10, nvec=nvec), MLP((5,), last_scale=1.0)
    theta = policy.init(jax.random.key(0), net, spec, -0.7)
    obs = jax.random.normal(jax.random.key(1), (30, 3))
    hessian, flat, unravel = dense(theta, obs, net)
    distribution = lambda f: policy.distribution(net, unravel(f), obs)
    hessian = hessian + 0.1 * np.eye(len(flat))
    target = jax.random.normal(jax.random.key(2), flat.shape)

    @jax.jit
    def solved(flat, target):
        product = trust_region.fisher_product(distribution, flat, 0.1)
        return product(target), trust_region.conjugate_gradient(product, target, 60)

    product, solution = solved(flat, target)
    np.testing.assert_allclose(product, hessian @ target, atol=1e-5)
    np.testing.assert_allclose(solution, np.linalg.solve(hessian, target), atol=1e-3)


def test_cg_stops_moving_once_it_has_arrived():
    product = lambda v: 2.0 * v
    target = jnp.array([1.0, -3.0])
    np.testing.assert_allclose(trust_region.conjugate_gradient(product, target, 30), target / 2, atol=1e-6)
    assert np.isfinite(trust_region.conjugate_gradient(product, jnp.zeros(2), 5)).all()


class Problem:
    """max gᵀx, c + Bx ≤ 0, ½xᵀHx ≤ δ, in six dimensions."""

    def __init__(self, seed: int, m: int, tightness: float):
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(6, 6))
        self.h = root @ root.T + 0.3 * np.eye(6)
        self.g, self.b, self.delta = rng.normal(size=6), rng.normal(size=(m, 6)), 0.01
        inverse = np.linalg.inv(self.h)
        self.q, self.r, self.s = self.g @ inverse @ self.g, self.b @ inverse @ self.g, self.b @ inverse @ self.b.T
        # how far each constraint can be moved alone, in its own units
        self.c = tightness * np.sqrt(2 * self.delta * np.diag(self.s)) * rng.uniform(0.5, 1.0, m)

    def x(self, reward, cost):
        return np.linalg.solve(self.h, float(reward) * self.g - np.asarray(cost, np.float64) @ self.b)

    def best(self):
        """The optimum by SLSQP, or None where it finds no feasible point, from several starts."""
        best = None
        for start in np.random.default_rng(0).normal(size=(5, 6)) * 0.03:
            found = minimize(
                lambda x: -self.g @ x, start, jac=lambda x: -self.g, method="SLSQP",
                constraints=[
                    {"type": "ineq", "fun": lambda x: -(self.c + self.b @ x), "jac": lambda x: -self.b},
                    {"type": "ineq", "fun": lambda x: self.delta - x @ self.h @ x / 2, "jac": lambda x: -self.h @ x},
                ],
                options={"maxiter": 500, "ftol": 1e-12},
            )  # fmt: skip
            met = np.all(self.c + self.b @ found.x <= 1e-6) and found.x @ self.h @ found.x / 2 <= self.delta + 1e-7
            if met and (best is None or self.g @ found.x > self.g @ best):
                best = found.x
        return best

    def nearest(self, point, metric):
        """The point that meets the constraints nearest to another one, by SLSQP."""
        return minimize(
            lambda x: (x - point) @ metric @ (x - point) / 2, point, jac=lambda x: metric @ (x - point),
            constraints=[{"type": "ineq", "fun": lambda x: -(self.c + self.b @ x), "jac": lambda x: -self.b}],
            method="SLSQP", options={"maxiter": 500, "ftol": 1e-13},
        ).x  # fmt: skip


f32 = lambda *arrays: [jnp.asarray(a, jnp.float32) for a in arrays]


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("tightness", [-3.0, -0.8, -0.3, 0.0, 0.3, 0.6])
def test_cpos_step_is_slsqps(m, tightness):
    solved = 0
    for seed in range(8):
        problem = Problem(seed, m, tightness)
        expected = problem.best()
        step = solve(*f32(problem.q, problem.r, problem.s, problem.c, problem.delta))
        assert bool(step.feasible) == (expected is not None), seed
        if expected is not None:
            solved += 1
            x = problem.x(step.reward, step.cost)
            np.testing.assert_allclose(problem.g @ x, problem.g @ expected, atol=1e-4)
            np.testing.assert_allclose(x, expected, atol=2e-3)
    assert solved >= (8 if tightness <= 0 or m == 1 else 3)


@pytest.mark.parametrize("m", [1, 3])
def test_an_infeasible_step_recovers_along_the_shortest_way_to_the_constraints(m):
    for seed in range(8):
        problem = Problem(seed, m, 3.0)
        step = solve(*f32(problem.q, problem.r, problem.s, problem.c, problem.delta))
        assert not step.feasible
        nearest = problem.nearest(np.zeros(6), problem.h)
        expected = nearest * np.sqrt(2 * problem.delta / (nearest @ problem.h @ nearest))
        np.testing.assert_allclose(problem.x(step.reward, step.cost), expected, atol=2e-3)
        if m == 1:  # Achiam 2017: −√(2δ / bᵀH⁻¹b) H⁻¹b
            back = -np.sqrt(2 * problem.delta / problem.s[0, 0]) * np.linalg.solve(problem.h, problem.b[0])
            np.testing.assert_allclose(problem.x(step.reward, step.cost), back, atol=1e-4)


def test_where_the_cost_is_the_reward_the_step_goes_to_the_limit_and_no_further():
    """g = b: nothing of g is left beside the constraint."""
    q, s = jnp.array(4.0), jnp.array([[4.0]])
    for c in (-0.1, 0.0, 0.1):
        step = solve(q, jnp.array([4.0]), s, jnp.array([c]), jnp.float32(0.01))
        assert step.feasible
        # bᵀx = α·r − S·w
        np.testing.assert_allclose(step.reward * 4.0 - 4.0 * step.cost[0], -c, atol=1e-3)


def test_a_constraint_that_nothing_changes_is_no_obstacle_while_it_is_met():
    q, r, s = jnp.array(2.0), jnp.array([1.0, 0.0]), jnp.array([[1.0, 0.0], [0.0, 0.0]])
    step = solve(q, r, s, jnp.array([-5.0, -1.0]), jnp.float32(0.01))
    assert step.feasible
    np.testing.assert_allclose(step.reward, np.sqrt(0.02 / 2), rtol=1e-4)
    broken = solve(q, r, s, jnp.array([-5.0, 1.0]), jnp.float32(0.01))
    assert not broken.feasible
    assert np.isfinite(np.asarray(broken.cost)).all()


@pytest.mark.parametrize("metric", ["kl", "l2"])
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("tightness", [-0.8, 0.0, 0.6, 3.0])
def test_pcpos_projection_is_slsqps(m, tightness, metric):
    for seed in range(8):
        problem = Problem(seed, m, tightness)
        towards = np.sqrt(2 * problem.delta / problem.q) * np.linalg.solve(problem.h, problem.g)
        distance = problem.h if metric == "kl" else np.eye(6)
        inverse = np.linalg.inv(distance)
        w = project(*f32(problem.b @ inverse @ problem.b.T, problem.c + problem.b @ towards))
        x = towards - inverse @ problem.b.T @ np.asarray(w, np.float64)
        expected = problem.nearest(towards, distance)
        np.testing.assert_allclose(x, expected, atol=2e-3)


def test_constraints_that_contradict_each_other_leave_a_finite_step():
    s, c = jnp.array([[1.0, -1.0], [-1.0, 1.0]]), jnp.array([0.1, 0.1])
    assert np.isfinite(np.asarray(project(s, c))).all()
    step = solve(jnp.array(1.0), jnp.array([0.5, -0.5]), s, c, jnp.float32(0.01))
    assert not step.feasible
    assert np.isfinite(np.asarray(step.cost)).all()


def test_the_line_search_takes_the_longest_accepted_length():
    step = jnp.array([1.0, 0.0])
    search = jax.jit(lambda bound: trust_region.backtrack(lambda x: (x[0] <= bound, x[0] / 2), step, 0.8, 10))
    for bound in (2.0, 1.0, 0.7, 0.2, 0.14):
        expected = next(0.8**j for j in range(10) if 0.8**j <= bound)
        taken, share, kl = search(bound)
        np.testing.assert_allclose([taken[0], share, 2 * kl], expected, rtol=1e-5)
    taken, share, kl = search(0.8**9 * 0.99)
    assert share == kl == 0
    assert (np.asarray(taken) == 0).all()
