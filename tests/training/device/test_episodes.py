"""Episodes on the device: counted as on the host, each run's own, also where a simulation goes wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from focops.core.spec import Constraint, Spec
from focops.core.types import Rollout
from focops.training.collect import RECENT, EpisodeStatistics
from focops.training.device import DeviceTrainer
from focops.training.device import episodes as on_device
from tests.training.device.cases import VARIED, advanced, arrays_of, config, in_warp, set_simulations


def batches(number: int, steps: int, envs: int, limit: int, seed: int):
    """Random rewards, costs and ends of all kinds; an episode that goes on does so in the next batch."""
    rng, age = np.random.default_rng(seed), np.zeros(envs, np.int32)
    for _ in range(number):
        ages, ends = [], []
        for _ in range(steps):
            terminated, cut = rng.random((2, envs)) < 0.15
            ages.append(age)
            ends.append((terminated, cut | (age + 1 >= limit), cut & ~terminated))
            age = np.where(ends[-1][0] | ends[-1][1], 0, age + 1).astype(np.int32)
        terminated, truncated, cut = (np.array(each) for each in zip(*ends, strict=True))
        reward, cost = rng.normal(size=(steps, envs)), rng.random((steps, envs, 2))
        numbers = dict(
            reward=reward.astype(np.float32), cost=cost.astype(np.float32), terminated=terminated, truncated=truncated,
            cut=cut, age=np.array(ages),
        )  # fmt: skip
        yield Rollout(**(dict.fromkeys(Rollout._fields) | numbers))


@pytest.mark.parametrize(("steps", "limit"), [(200, 7), (3, 7), (9, None)])
def test_the_book_on_the_device_is_the_one_on_the_host(steps, limit):
    """200 steps of 4 environments end more episodes than a book keeps; 3 seldom any."""
    spec = Spec(1, 1, False, (Constraint("a", 1.0, 0.9), Constraint("b", 1.0, 1.0)), time_limit=limit)
    theirs = EpisodeStatistics(spec, 4)
    mine = on_device.blank(4, constraints=2)
    enter = jax.jit(lambda mine, rollout: on_device.enter(mine, rollout, jnp.array([0.9, 1.0])))
    for rollout in batches(8, steps, 4, limit or 10**6, seed=steps):
        before = theirs.finished
        theirs.add(rollout)
        mine = enter(mine, rollout)
        assert mine.finished == theirs.finished
        np.testing.assert_allclose(mine.running, theirs._running, rtol=1e-4, atol=1e-4)
        rows = np.arange(theirs.finished - len(theirs.recent), theirs.finished) % RECENT
        np.testing.assert_allclose(mine.recent[rows], theirs.state()["recent"], rtol=1e-4, atol=1e-4)
        if (means := theirs.means()) is not None:
            np.testing.assert_allclose(on_device.means(mine), means, rtol=1e-4, atol=1e-4)
    assert (theirs.finished - before > RECENT) == (steps == 200)


def test_records_are_of_the_runs_own_episodes():
    fleet = DeviceTrainer(VARIED)
    books = [EpisodeStatistics(spec, 4) for spec in fleet.specs]
    costs = [f"{kind}_cost_mean/outside" for kind in ("discounted", "undiscounted")]
    names = ["episode_length_mean", "return_mean", *costs]
    for _ in range(8):
        records = fleet.advance()
        for member, book, record in zip(fleet.members, books, records, strict=True):
            book.add(member.batch()[0])
            assert record["episodes_finished"] == book.finished
            found = [record[name] for name in names]
            assert found == (pytest.approx(list(book.means()), rel=1e-4) if book.recent else [None] * 4)
    assert [book.finished for book in books] == [4, 4, 4]  # of 128 steps: cut at 17, 33, 49, whole at 65, 82, 98, 114


def test_a_simulation_gone_wrong_is_counted_and_its_run_goes_on():
    fleet = DeviceTrainer(VARIED)
    qpos = arrays_of(fleet)[1]["env/qpos"].copy()
    qpos[2, 2] = np.nan
    set_simulations(fleet, 1, qpos=qpos)
    for _ in range(2):
        records = fleet.advance()
    assert [record["diverged"] for record in records] == [0, 1, 0]


@pytest.mark.parametrize(("room", "overflows"), [(0, True), (8, False)])
def test_contacts_without_room_are_said_once(caplog, room, overflows):
    """A hopper folded up beneath the floor touches it with both ends of all its limbs, and itself."""
    fleet = DeviceTrainer([in_warp("HopperSpeed-v0", self_contacts=room)], impl="warp")
    for _ in range(2):
        folded = np.array([0.0, -3.0, 0.0, -2.5, -2.5, 0.0], np.float32)  # x, z, angles of torso, thigh, leg, foot
        set_simulations(fleet, 0, qpos=np.tile(folded, (2, 1)))
        fleet.advance()
    assert [r.getMessage() for r in caplog.records] == overflows * [
        "HopperSpeed-v0: 2 simulations had more contacts than there is room for at iteration 1; those beyond it were "
        "ignored. --self-contacts is 0; raise it with --self-contacts N if this goes on"
    ]


def test_fresh_episodes_start_with_every_batch():
    """Two whole episodes a batch, as the paper preset has them."""
    paper = dict(fresh_episodes=True, num_envs=2, batch_size=2 * 70, minibatch_size=35, cost_estimator="episodes")
    fleet = DeviceTrainer([config(steps=420, seed=seed, bootstrap_time_limit=False, **paper) for seed in (0, 1)])
    for iteration in range(1, 4):
        records = fleet.advance()
        rollout = fleet.members[1].batch()[0]
        expected = [*range(65), *range(5)]
        np.testing.assert_array_equal(rollout.age, np.array([expected, expected]).T)
        assert [record["episodes_finished"] for record in records] == [2 * iteration] * 2
        assert [record["episode_length_mean"] for record in records] == [65] * 2


def test_episodes_that_are_cut_are_not_counted():
    fleet = advanced(VARIED, 2)
    before = arrays_of(fleet)
    fleet.cut_episodes()
    for was, now in zip(before, arrays_of(fleet), strict=True):
        assert np.any(was["episodes/running"])
        assert not np.any(now["episodes/running"])
        assert (now["env/age"].tolist(), now["env/horizon"].tolist()) == ([0] * 4, [17, 33, 49, 65])  # staggered again
        np.testing.assert_array_equal(now["env/episode"], was["env/episode"] + 1)
        assert now["episodes/finished"] == was["episodes/finished"]
