"""Episodes on the device: each run's own, also where a simulation goes wrong."""

import numpy as np
import pytest

from focops.training.device import DeviceTrainer
from tests.resume.tiny import arrays_of
from tests.training.device.cases import VARIED, Watched, advanced, config, in_warp, set_simulations
from tests.training.reference import Episodes


def test_records_are_of_the_runs_own_episodes():
    trainer = Watched(VARIED)
    expected = [Episodes([c.discount for c in spec.constraints], 4) for spec in trainer.specs]
    costs = [f"{kind}_cost_mean/outside" for kind in ("discounted", "undiscounted")]
    names = ["episode_length_mean", "return_mean", *costs]
    for _ in range(8):
        records = trainer.advance()
        for i, (own, record) in enumerate(zip(expected, records, strict=True)):
            own.add(trainer.batch(i))
            assert record["episodes_finished"] == own.finished
            found = [record[name] for name in names]
            assert found == (pytest.approx(list(own.means()), rel=1e-4) if own.recent else [None] * 4)
    assert [own.finished for own in expected] == [4, 4, 4]  # of 128 steps: cut at 17, 33, 49, whole at 65, 82, 98, 114


def test_a_simulation_gone_wrong_is_counted_and_its_run_goes_on():
    trainer = DeviceTrainer(VARIED)
    qpos = arrays_of(trainer)[1]["env/qpos"].copy()
    qpos[2, 2] = np.nan
    set_simulations(trainer, 1, qpos=qpos)
    for _ in range(2):
        records = trainer.advance()
    assert [record["diverged"] for record in records] == [0, 1, 0]


@pytest.mark.parametrize(("room", "overflows"), [(0, True), (8, False)])
def test_contacts_without_room_are_said_once(caplog, room, overflows):
    """A hopper folded up beneath the floor touches it with both ends of all its limbs, and itself."""
    trainer = DeviceTrainer([in_warp("HopperSpeed-v0", self_contacts=room)], impl="warp")
    for _ in range(2):
        folded = np.array([0.0, -3.0, 0.0, -2.5, -2.5, 0.0], np.float32)  # x, z, angles of torso, thigh, leg, foot
        set_simulations(trainer, 0, qpos=np.tile(folded, (2, 1)))
        trainer.advance()
    assert [r.getMessage() for r in caplog.records] == overflows * [
        "HopperSpeed-v0: 2 simulations had more contacts than there is room for at iteration 1; those beyond it were "
        "ignored. --self-contacts is 0; raise it with --self-contacts N if this continues"
    ]


def test_fresh_episodes_start_with_every_batch():
    """Two whole episodes a batch, as the paper preset has them."""
    paper = dict(fresh_episodes=True, num_envs=2, batch_size=2 * 70, minibatch_size=35, cost_estimator="episodes")
    trainer = Watched([config(steps=420, seed=seed, bootstrap_time_limit=False, **paper) for seed in (0, 1)])
    for iteration in range(1, 4):
        records = trainer.advance()
        expected = [*range(65), *range(5)]
        np.testing.assert_array_equal(trainer.batch(1).age, np.array([expected, expected]).T)
        assert [record["episodes_finished"] for record in records] == [2 * iteration] * 2
        assert [record["episode_length_mean"] for record in records] == [65] * 2


def test_episodes_that_are_cut_are_not_counted():
    trainer = advanced(VARIED, 2)
    before = arrays_of(trainer)
    trainer.cut_episodes()
    for was, now in zip(before, arrays_of(trainer), strict=True):
        assert np.any(was["episodes/running"])
        assert not np.any(now["episodes/running"])
        assert (now["env/age"].tolist(), now["env/horizon"].tolist()) == ([0] * 4, [17, 33, 49, 65])  # staggered again
        np.testing.assert_array_equal(now["env/episode"], was["env/episode"] + 1)
        assert now["episodes/finished"] == was["episodes/finished"]
