"""Images: which network they get, that it learns from them, and what is recorded of it."""

import io
import json
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

import focops
from focops import api as runs
from focops.core.networks import NatureCNN
from focops.display.progress import PlainDisplay
from focops.errors import UsageError
from focops.training.host import Trainer
from tests.envs.rooms import CameraAndMore, Thumbnail
from tests.resume.tiny import OPTIONS, results, tiny

CAMERA, FRAMES = "tests.envs.rooms:Camera", "tests.envs.rooms:Frames"


def trained(task: str, limit: float, iterations: int, batch_size: int, rate: float, **algo) -> list[dict]:
    options = dict(num_envs=8, batch_size=batch_size, steps=batch_size * iterations, cost_limit=(limit,))
    rates = dict(policy_rate=rate, value_rate=rate, cost_value_rate=rate)
    config = tiny(task, algo=dict(minibatch_size=batch_size // 4, epochs=4, hidden=(32,)) | rates | algo, **options)
    trainer = Trainer(config)
    return [trainer.iterate() for _ in range(iterations)]


@pytest.mark.parametrize("task", [CAMERA, FRAMES])
def test_what_an_image_shows_is_learned(task: str) -> None:
    records = trained(task, 100.0, 7, 256, 3e-3)
    assert records[-1]["return_mean"] > 7  # of 8; 4 by guessing


def test_what_an_image_shows_is_done_as_often_as_its_cost_allows() -> None:
    records = trained(CAMERA, 2.0, 30, 128, 1e-3, nu_rate=0.1, nu_init=0.5)[-10:]
    # 4 for the half that costs nothing, and about 2 of the 4 that cost 1 each
    np.testing.assert_allclose(np.mean([r["return_mean"] for r in records]), 6.0, atol=0.5)
    np.testing.assert_allclose(np.mean([r["discounted_cost_mean/cost"] for r in records]), 2.0, atol=0.4)


@pytest.mark.parametrize("algorithm", ["focops", "cpo", "lyapunov", "cvar"])
def test_algorithms_of_either_order_take_images(algorithm: str) -> None:
    trainer = Trainer(tiny(CAMERA, iterations=2, algorithm=algorithm))
    assert trainer.network == NatureCNN((36, 40, 3), (8,))
    for _ in range(2):
        assert np.isfinite(trainer.iterate()["kl"])


class Mean(NamedTuple):
    """A network of the user's own, which has few weights."""

    def init(self, key, in_size: int, out_size: int):
        return {"w": jax.random.normal(key, (1, out_size))}

    def apply(self, params, x):
        return x.mean(-1, keepdims=True) @ params["w"]


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.run(tiny(FRAMES, tmp_path_factory.mktemp("camera") / "run")).path


def test_the_network_is_in_the_title_the_config_and_the_policy(camera: Path) -> None:
    described = {"NatureCNN": {"shape": [3, 36, 40], "hidden": [8]}}
    assert json.loads((camera / "config.json").read_text())["algo"]["network"] == described
    assert focops.load(camera).description["network"] == described
    shown = io.StringIO()
    PlainDisplay(shown).start(runs.RunDirectory(camera).config, None)
    assert "· network NatureCNN 36×40×3, 8 →" in shown.getvalue()


def test_a_run_on_images_resumes_exactly_also_in_workers(camera: Path, tmp_path: Path) -> None:
    stops = iter([False, False, False, True])
    run = runs.run(tiny(FRAMES, tmp_path / "run", env_workers=2), should_stop=lambda: next(stops)).path
    assert results(runs.resume(run).path) == results(camera)


def test_a_policy_of_images_is_evaluated_and_takes_them_in_their_own_shape(camera: Path) -> None:
    assert focops.evaluate(camera, episodes=4).reward.mean > 0
    policy = focops.load(camera)
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 36, 40), np.uint8)
    actions = policy.predict(images, deterministic=True)
    assert actions.shape == (5,)
    np.testing.assert_array_equal(policy.predict(images.reshape(5, -1), deterministic=True), actions)
    assert policy.predict(images[2], deterministic=True) == actions[2]
    with pytest.raises(UsageError, match=r"shape \(36, 40, 3\); this policy takes .*Box\(3, 36, 40\) uint8"):
        policy.predict(np.moveaxis(images[0], 0, -1))


def test_unless_asked_for_another_the_layer_behind_the_convolutions_has_512() -> None:
    config = tiny(CAMERA, algo={"hidden": (64, 64)})
    assert Trainer(config).network == NatureCNN((36, 40, 3), (512,))


def test_images_that_cannot_be_learned_from_are_refused_with_the_ways_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Thumbnail observes images of 8×40×3; .*36×36 or more.*network=…"):
        focops.train(Thumbnail, cost_limit=1, out=tmp_path / "run", **OPTIONS)
    with pytest.raises(UsageError, match=r"Dict\(eye: Box\(36, 40, 3\) uint8, .*image beside other.*FlattenObs"):
        focops.train(CameraAndMore, cost_limit=1, out=tmp_path / "run", **OPTIONS)
    assert not (tmp_path / "run").exists()


def test_a_network_of_ones_own_takes_images_of_any_size(tmp_path: Path) -> None:
    run = focops.train(Thumbnail, cost_limit=1, network=Mean(), out=tmp_path / "run", **OPTIONS).path
    assert focops.load(run, network=Mean()).predict(Thumbnail().reset(seed=0)[0]) in (0, 1)
