"""The tasks on MJX beside the CPU backend: the same motion, episodes and ends, and simulations that go wrong.

`rel` below is the largest error of a row's observation over the larger of 1 and the row's largest number. MJX computes
in float32, so one control step agrees to about 1e-6 (up to 3e-4 where a contact begins within it), also for Humanoid,
whose solver is another one there. Contacts multiply differences: after 10 steps HalfCheetah's are 1e-5, some 4e-3,
and after 100 only averages can be compared. Tolerances leave a factor of ten.
"""

import functools
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from focops.envs import mjx, mjx_model, mujoco_batch
from focops.envs.mjx import MjxTask, Simulations
from focops.envs.mujoco_batch import MujocoBatch
from focops.envs.stagger import first_horizons
from focops.envs.tasks import find
from focops.envs.tasks.task import numpy_draws
from tests.envs.states import set_state

N = 16


@functools.cache
def compiled(name: str, impl: Any = "jax", stagger: bool = False) -> tuple[MjxTask, Any, Any]:
    """A task, its `begin` (seed -> N simulations), and a control step that knows nothing but the simulations' rows."""
    env = MjxTask(find(name), impl=impl, stagger=stagger)
    begin = jax.jit(lambda words: env.begin(jnp.tile(words, (N, 1)), jnp.arange(N, dtype=jnp.int32), N))
    step = jax.jit(lambda sims, action: env.step(env.load(sims), sims, action)[1:])
    return env, lambda seed=0: begin(words(seed)), step


def words(seed: int) -> jax.Array:
    return jnp.array([seed & 0xFFFFFFFF, seed >> 32], jnp.uint32)


def actions(size: int, steps: int, seed: int = 0) -> np.ndarray:
    return 0.6 * np.random.default_rng(seed).normal(size=(steps, N, size)).astype(np.float32)


def on_cpu(name: str, sims: Simulations) -> MujocoBatch:
    """The CPU backend where simulations that have just begun are."""
    return set_state(MujocoBatch(find(name), N, stagger=False), sims.qpos, sims.qvel)


def in_the_state_of(env: MujocoBatch, sims: Simulations) -> Simulations:
    """`sims` where the CPU's simulations are; the solver starts without its memory of the last step."""
    f32 = functools.partial(jnp.asarray, dtype=jnp.float32)
    return sims._replace(
        qpos=f32(env._physics.qpos), qvel=f32(env._physics.qvel), position=f32(env._position),
        warmstart=jnp.zeros_like(sims.warmstart),
    )  # fmt: skip


def rel(obs: Any, expected: np.ndarray) -> np.ndarray:
    return np.abs(np.asarray(obs) - expected).max(1) / np.maximum(1.0, np.abs(expected).max(1))


class Beside:
    """Control steps of both backends from the same states with the same actions.

    `error` [steps, N] is of runs that never meet again, NaN once an episode has ended in either; `single` of one step
    from the states that the CPU comes by; `score` [2, 3, N] are each environment's mean reward, cost and share of ends.
    """

    def __init__(self, name: str, steps: int = 50) -> None:
        env, begin, step = compiled(name, "warp")
        sims = begin()
        cpu = on_cpu(name, sims)
        self.start = rel(sims.obs, cpu.obs)
        going = np.ones(N, bool)
        error, single, scores, ends = [], [], [], []
        for t, action in enumerate(actions(env.spec.action_size, steps)):
            if t % 10 == 9:
                out = step(in_the_state_of(cpu, sims), action)[1]
            sims, mine = step(sims, action)
            theirs = cpu.step(action)
            error.append(np.where(going, rel(mine.next_obs, theirs.next_obs), np.nan))
            going &= ~(np.asarray(mine.terminated) | theirs.terminated)
            scores.append([(x.reward, x.cost[:, 0], x.terminated) for x in (mine, theirs)])
            if t % 10 == 9:
                numbers = [np.c_[x.next_obs, x.reward, x.cost] for x in (out, theirs)]
                single.append(rel(*numbers))
                ends.append((out.terminated, theirs.terminated))
        self.error, self.single, self.ends = np.array(error), np.array(single), np.array(ends)
        self.score = np.array(scores, np.float64).mean(0)
        self.diverged = int(sims.diverged.sum())
        # cut every episode: the next begins as it would there
        sims, _ = step(sims._replace(horizon=sims.age + 1), action)
        cpu = on_cpu(name, sims)
        self.restart = np.r_[rel(sims.obs, cpu.obs), rel(sims.position, cpu._position)]

    def gap(self) -> np.ndarray:
        """Difference of the mean scores in standard errors."""
        mine, theirs = self.score
        spread = np.sqrt((mine.var(1, ddof=1) + theirs.var(1, ddof=1)) / N)
        return np.abs(mine.mean(1) - theirs.mean(1)) / np.maximum(spread, 1e-9)


@pytest.mark.parametrize("name", ["HalfCheetahSpeed", "SwimmerSpeed", "HopperSpeed", "Walker2dSpeed", "HumanoidSpeed"])
def test_a_robot_moves_as_on_the_cpu(name):
    both = Beside(name, 100 if name == "SwimmerSpeed" else 50)
    assert both.start.max() < 1e-6
    assert both.restart.max() < 1e-6
    assert both.error[0].max() < 5e-5
    assert np.nanmedian(both.error[9]) < 1e-4
    assert np.nanmax(both.error[9]) < 0.05  # HalfCheetah comes down on its feet within these 10 steps
    assert both.single.max() < 3e-3
    np.testing.assert_array_equal(both.ends[:, 0], both.ends[:, 1])
    assert both.ends.any() == (name in ("HopperSpeed", "Walker2dSpeed", "HumanoidSpeed"))
    assert both.gap().max() < 5
    if name == "SwimmerSpeed":  # it touches nothing
        assert np.median(both.error[99]) < 1e-4
    assert both.diverged == 0


def test_humanoid_moves_on_the_circle_as_on_the_cpu():
    """10 m from the origin, where float32 tells mass centres apart less finely; it falls within 20 steps."""
    both = Beside("HumanoidCircle", steps=20)
    assert both.start.max() < 1e-5
    assert both.restart.max() < 1e-5
    assert both.error[0].max() < 5e-5
    assert np.nanmax(both.error[9]) < 1e-4
    assert both.single.max() < 1e-4
    np.testing.assert_array_equal(both.ends[:, 0], both.ends[:, 1])
    assert both.ends.any()
    assert both.diverged == 0


@pytest.mark.parametrize(("name", "apart"), [("AntSpeed", 1e-6), ("AntCircle", 1e-5)])  # 10 m off the origin
def test_ant_moves_as_on_the_cpu_but_for_the_friction_under_steep_legs(name, apart):
    """MJX turns the friction pyramid of a leg that stands steeper than 60°; the CPU aligns it with the leg."""
    both = Beside(name)
    assert both.start.max() < apart
    assert both.restart.max() < apart
    assert both.error[1].max() < 5e-5  # it has not come down yet
    assert np.median(both.single) < 1e-4
    assert np.mean(both.single > 1e-3) < 0.4
    assert both.single.max() < 1.0
    assert both.gap().max() < 5


def test_with_round_friction_cones_ant_moves_as_on_the_cpu(monkeypatch):
    """They have no direction, so nothing of the difference is left."""

    def elliptic(robot):
        model = load(robot)
        model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        return model

    load = mjx.load
    for module in (mjx, mujoco_batch):
        monkeypatch.setattr(module, "load", elliptic)
    monkeypatch.setattr(f"{__name__}.compiled", compiled.__wrapped__)
    both = Beside("AntSpeed", steps=10)
    assert np.median(both.error[9]) < 1e-4
    assert both.error[9].max() < 0.01
    assert both.single.max() < 3e-3


def test_point_moves_as_on_the_cpu_for_a_whole_episode():
    env, begin, step = compiled("PointCircle")
    sims = begin()
    cpu = on_cpu("PointCircle", sims)
    for action in actions(env.spec.action_size, 65):
        sims, mine = step(sims, action)
        theirs = cpu.step(action)
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)
    assert mine.truncated.all()


def test_both_implementations_agree():
    _, begin, by_jax = compiled("HalfCheetahSpeed", "jax")
    env, _, by_warp = compiled("HalfCheetahSpeed", "warp")
    one = other = begin()
    for t, action in enumerate(actions(env.spec.action_size, 10)):
        (one, a), (other, b) = by_jax(one, action), by_warp(other, action)
        a, b = (np.c_[x.next_obs, x.reward, x.cost] for x in (a, b))
        if t < 3:
            assert rel(a, b).max() < 1e-4
    assert np.median(rel(a, b)) < 1e-4
    assert rel(a, b).max() < 0.05


def test_many_warp_steps_are_as_many_single_ones():
    from focops.envs import mjx_warp

    env, begin, _ = compiled("HalfCheetahSpeed", "warp")
    sims, action = begin(), actions(6, 1)[0]
    data = jax.jit(lambda: env.load(sims).replace(ctrl=action))()
    one = jax.jit(jax.vmap(mjx.mjx.step, (None, 0)))
    expected = data
    for _ in range(3):
        expected = one(env._mjx, expected)
    found = jax.jit(mjx_warp.steps(3))(env._mjx, data)
    for field in ("qpos", "qvel", "qacc_warmstart", "time"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field), err_msg=field)
    assert np.all(np.asarray(found.qpos) != np.asarray(sims.qpos))


@pytest.mark.parametrize("name", ["HalfCheetahSpeed", "HumanoidSpeed"])
def test_steps_need_no_more_than_what_is_staged(monkeypatch, name):
    """As on a CUDA device: Warp keeps arrays of its own; only `SET` goes in and only `READ` and the fields come out."""
    from focops.envs import mjx_warp

    def merged(into: Any, other: Any, names: frozenset[str]) -> Any:
        choose = lambda path, x, y: y if path[-1].name in names else x
        return jax.tree_util.tree_map_with_path(choose, into, other)

    def staged(stage: Any, read: frozenset[str]) -> Any:
        own = None  # of this call in the program

        def call(model: Any, data: Any) -> Any:
            nonlocal own
            own = stage(model, merged(data if own is None else own, data, mjx_warp.SET))
            return merged(data, own, read)

        return call

    env, begin, step = compiled(name, "warp")
    robot, script = env.task.robot, actions(env.spec.action_size, 6)
    first = sims = begin()._replace(horizon=jnp.arange(2, 2 + N, dtype=jnp.int32))  # resets on the way
    expected = []
    for action in script:
        sims, out = step(sims, action)
        expected.append(out)

    fields = frozenset(robot.fields)
    stepping = staged(jax.jit(mjx_warp.steps(robot.frame_skip, robot.fields)), mjx_warp.READ | fields)
    placing = staged(jax.jit(mjx_warp.place(robot.fields)), fields)
    monkeypatch.setattr(mjx_warp, "steps", lambda *_: stepping)
    monkeypatch.setattr(mjx_warp, "place", lambda *_: placing)
    data, sims = env.load(first), first
    for action, known in zip(script, expected, strict=True):
        data, sims, out = env.step(data, sims, jnp.asarray(action))
        for key, a, b in zip(out._fields, out, known, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=key)
    assert env.overflow(data) == 0
    assert int(jnp.sum(sims.episode)) > N  # some have restarted


def test_a_row_is_all_that_there_is_of_a_simulation():
    """Steps in one go, on the same working arrays, are those that each load the rows anew."""
    env, begin, step = compiled("HalfCheetahSpeed", "warp")
    script = actions(6, 6)
    single = begin()
    for action in script:
        single, _ = step(single, action)

    @jax.jit
    def in_one_go(sims, script):
        advance = lambda carry, action: (env.step(carry[0], carry[1], action)[:2], None)
        data, sims = jax.lax.scan(advance, (env.load(sims), sims), script)[0]
        return sims, env.overflow(data), data._impl.nacon[0]

    sims, overflow, contacts = in_one_go(begin(), script)
    assert overflow == 0
    assert contacts > 0  # so that there was something to find room for
    for name, a, b in zip(Simulations._fields, sims, single, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("name", ["HopperSpeed", "HalfCheetahSpeed", "AntCircle", "HumanoidCircle", "PointCircle"])
def test_start_noise_has_the_tasks_range_and_kind(name):
    """Compared by quantiles over 300 starts, as the CPU's are with Gymnasium's; the angle on the circle as well."""
    task, env = find(name), MjxTask(find(name))
    starts = jax.jit(jax.vmap(env._start, (None, 0, None)))
    qpos, qvel = map(np.asarray, starts(words(5), jnp.arange(300), jnp.int32(0)))
    theirs = [
        task.start(numpy_draws(np.random.default_rng(seed)), env.model.qpos0, env.model.nv) for seed in range(300)
    ]
    cpu_qpos, cpu_qvel = (np.array(each) for each in zip(*theirs, strict=True))
    scale, placed = task.robot.noise, 2 if "Circle" in name and "Point" not in name else 0
    levels = [0.001, 0.1, 0.5, 0.9, 0.999]
    noise = lambda q: (q - env.model.qpos0)[:, placed:]
    assert np.abs(noise(qpos)).max() <= scale * 1.001
    np.testing.assert_allclose(np.quantile(noise(qpos), levels), np.quantile(noise(cpu_qpos), levels), atol=0.4 * scale)
    np.testing.assert_allclose(np.quantile(qvel, levels), np.quantile(cpu_qvel, levels), atol=0.4 * scale)
    if placed:
        np.testing.assert_allclose(np.hypot(*qpos[:, :2].T), 10.0, rtol=1e-5)
        quadrants = np.histogram(np.arctan2(qpos[:, 1], qpos[:, 0]), 4, (-np.pi, np.pi))[0]
        assert np.all(np.abs(quadrants - 75) < 30)  # 4 standard deviations


def test_starts_depend_on_seed_environment_and_episode_alone():
    """Not on where a simulation stands, nor among how many."""
    env = MjxTask(find("HopperSpeed"))
    begin = lambda seeds, numbers: jax.jit(
        lambda s, n: (first := env.begin(s, n, 8), env.restart(first, 8))
    )(jnp.stack([words(seed) for seed in seeds]), jnp.array(numbers, jnp.int32))  # fmt: skip
    alone, crowd = begin([7], [3]), begin([1, 7, 7, 7, 2], [3, 2, 3, 4, 3])
    for few, many in zip(alone, crowd, strict=True):
        for name, one, all_ in zip(Simulations._fields, few, many, strict=True):
            np.testing.assert_array_equal(one[0], all_[2], err_msg=name)
    rows = np.concatenate([np.asarray(sims.qpos) for sims in crowd])
    assert len(np.unique(rows, axis=0)) == 10


@pytest.mark.parametrize("other", [4, 3 + 2**32, 3 + 2**62])
def test_every_bit_of_the_seed_counts(other):
    _, begin, _ = compiled("PointCircle")
    assert not np.any(np.asarray(begin(3).qpos) == np.asarray(begin(other).qpos))


@pytest.mark.parametrize("stagger", [True, False])
def test_episodes_end_when_the_cpus_do(stagger):
    env, begin, step = compiled("PointCircle", stagger=stagger)
    sims, cpu = begin(), MujocoBatch(find("PointCircle"), N, stagger=stagger)
    np.testing.assert_array_equal(sims.horizon, first_horizons(N, 65) if stagger else [65] * N)
    for action in actions(env.spec.action_size, 140):
        sims, out = step(sims, action)
        theirs = cpu.step(action)
        np.testing.assert_array_equal(out.truncated, theirs.truncated)
        np.testing.assert_array_equal(out.cut, theirs.cut)
        np.testing.assert_array_equal(sims.age, cpu.age)
    np.testing.assert_array_equal(sims.episode, cpu._episode)
    np.testing.assert_array_equal(sims.horizon, [65] * N)


def test_next_obs_is_the_true_successor_where_the_episode_ends_and_obs_the_new_start():
    env, begin, step = compiled("PointCircle")
    sims = endless = begin()
    endless = endless._replace(horizon=jnp.full(N, 10**6))
    for action in actions(env.spec.action_size, 65):
        sims, out = step(sims, action)
        endless, onward = step(endless, action)
    assert out.truncated.all()
    assert not onward.truncated.any()
    assert not out.terminated.any()
    np.testing.assert_array_equal(out.next_obs, onward.next_obs)
    np.testing.assert_array_equal(out.reward, onward.reward)
    assert np.abs(sims.obs[:, :2]).max() < 0.011  # back at the centre
    assert len(np.unique(sims.obs, axis=0)) == N


@pytest.mark.parametrize("damage", [np.nan, np.inf, 1e8])
def test_a_simulation_gone_wrong_ends_its_episode_and_no_other(damage):
    _, begin, step = compiled("HalfCheetahSpeed", "warp")
    script = actions(6, 4)
    sims = begin()
    for action in script[:2]:
        sims, _ = step(sims, action)
    others = np.arange(N) != 5
    sound, expected = step(sims, script[2])
    broken, out = step(sims._replace(qvel=sims.qvel.at[5, 3].set(damage)), script[2])
    assert np.flatnonzero(out.truncated).tolist() == [5]
    assert not out.terminated.any()
    assert (out.reward[5], out.cost[5, 0]) == (0.0, 0.0)
    np.testing.assert_array_equal(out.next_obs[5], sims.obs[5])
    assert broken.diverged.tolist() == [int(i == 5) for i in range(N)]
    assert (broken.age[5], broken.episode[5]) == (0, 2)
    for one, other in zip((*broken, *out), (*sound, *expected), strict=True):
        np.testing.assert_array_equal(np.asarray(one)[others], np.asarray(other)[others])
    after, out = step(broken, script[3])  # what begins anew is sound
    assert all(np.isfinite(np.asarray(x)).all() for x in (*broken, *after, *out))
    assert not out.truncated.any()


def test_an_action_that_is_not_finite_spoils_its_own_episode_alone():
    env, begin, step = compiled("PointCircle")
    spoilt = actions(env.spec.action_size, 1)[0]
    spoilt[1] = np.nan
    sims, out = step(begin(), spoilt)
    assert np.flatnonzero(out.truncated).tolist() == [1]
    assert all(np.isfinite(np.asarray(x)).all() for x in (*out, *sims))


def test_room_is_for_all_contacts_with_the_floor_and_all_joint_limits():
    model = lambda name: mjx_model.for_mjx(mjx.load(find(name).robot))
    # 8 capsules that touch the floor at 2 points, not one another; 6 limited joints; 4 rows a contact with friction
    assert mjx_model.buffer_sizes(model("HalfCheetahSpeed"), 8) == (8 * 2, 6 + 16 * 4)
    # 12 capsules, 5 spheres (head, hands, feet), and themselves, without friction; 17 limited joints, 2 tendons
    for own in (0, 8):
        assert mjx_model.buffer_sizes(model("HumanoidSpeed"), own) == (12 * 2 + 5 + own, 17 + 2 + 29 * 4 + own)


@pytest.mark.parametrize(
    "room", [mjx_model.Buffers(contacts=1, constraints=70), mjx_model.Buffers(contacts=16, constraints=6)]
)
def test_contacts_that_find_no_room_are_noticed(monkeypatch, room):
    """With the right sizes none overflow: see the test of rows above."""
    monkeypatch.setattr(mjx, "buffer_sizes", lambda *_: room)
    env, begin, _ = compiled.__wrapped__("HalfCheetahSpeed", "warp")
    sims = begin()

    @jax.jit
    def overflow(sims):
        return env.overflow(env.step(env.load(sims), sims, jnp.zeros((N, 6)))[0])

    assert overflow(sims) == 0  # in the air
    assert overflow(sims._replace(qpos=sims.qpos.at[:, 1].add(-0.1))) > N / 2  # both feet in the floor


def test_warp_says_nothing_of_its_kernels():
    """They are a hundred lines, between a run's own."""
    program = """
import jax, jax.numpy as jnp
from focops.envs.mjx import MjxTask
from focops.envs.tasks import find
from tests.envs.states import set_state
env = MjxTask(find("HopperSpeed"), impl="warp")
sims = jax.jit(lambda: env.begin(jnp.zeros((1, 2), jnp.uint32), jnp.arange(1), 1))()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Warp 1" not in done.stdout + done.stderr
    assert "Module" not in done.stdout + done.stderr
