"""A card tells what the files of a run tell, good or bad; what is uploaded loads again."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard, snapshot_download

import focops
from focops import api, cli
from focops.runs.directory import RunDirectory
from tests.cli.fake_hub import FakeHub, running
from tests.resume.tiny import OURS, tiny

TOKEN = "hf_of_this_test"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose policy was evaluated."""
    out = tmp_path_factory.mktemp("card") / "run"
    return api.run(tiny(OURS, out, iterations=2, final_episodes=4)).path


@pytest.fixture(scope="module")
def hub() -> Iterator[FakeHub]:
    with running(TOKEN) as hub:
        yield hub


@pytest.fixture
def at_hub(hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHub:
    hub.files.clear()
    hub.calls.clear()
    hub.refuse = 0
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return hub


def with_evaluation(run: Path, tmp_path: Path, change: Any) -> Path:
    """A copy of the run's published files whose summary is changed."""
    copy = tmp_path / "copy"
    (copy / "policy").mkdir(parents=True)
    for name in ("config.json", "summary.json", "policy/policy.safetensors"):
        (copy / name).write_bytes((run / name).read_bytes())
    summary = json.loads((copy / "summary.json").read_bytes())
    change(summary)
    (copy / "summary.json").write_text(json.dumps(summary))
    return copy


def made(run: Path, tmp_path: Path, *words: str) -> str:
    assert cli.main(["card", str(run), "--out", str(tmp_path / "card.md"), *words]) == 0
    return (tmp_path / "card.md").read_text()


def test_metadata_holds_reward_and_cost_of_both_ways_to_act_in_the_hubs_schema(trained: Path, tmp_path: Path) -> None:
    found = json.loads((trained / "summary.json").read_bytes())["policy"]
    data: Any = ModelCard(made(trained, tmp_path, "--license", "apache-2.0")).data
    assert (data.library_name, data.license, data.model_name) == ("focops", "apache-2.0", f"focops-{OURS}")
    assert {"reinforcement-learning", OURS} <= set(data.tags)
    results = [(each.dataset_type, each.metric_type, each.metric_value) for each in data.eval_results]
    cost = next(iter(found["sampled"]["discounted_cost"]))
    assert results == [
        (OURS, kind, value)
        for acting in ("sampled", "mean_action")
        for kind, value in (
            ("mean_reward", found[acting]["reward"]),
            ("cost_return", found[acting]["discounted_cost"][cost]),
        )
    ]
    judged = data.eval_results[1].metric_args
    assert judged["limit"] == found["sampled"]["cost_limit"][cost]
    assert judged["verdict"] == found["sampled"]["verdict"][cost]


def test_the_command_in_a_card_trains_the_same_run(trained: Path, tmp_path: Path) -> None:
    from focops.cli import arguments
    from focops.runs.identity import run_id

    command = re.search(r"```sh\nfocops train (.*)\n```", made(trained, tmp_path))
    config = arguments.parse(command[1].split()).config
    assert run_id(config) == RunDirectory(trained).identity["run_id"]


@pytest.mark.parametrize("judged", ["satisfied", "undecided", "violated"])
def test_a_card_says_each_verdict_and_warns_unless_it_is_satisfied(trained: Path, tmp_path: Path, judged: str) -> None:
    def change(summary: dict[str, Any]) -> None:
        found = summary["policy"]["mean_action"]
        found["verdict"] = dict.fromkeys(found["verdict"], judged)

    text = made(with_evaluation(trained, tmp_path, change), tmp_path)
    line = next(line for line in text.splitlines() if line.startswith("- With **mean actions**"))
    assert f"**{judged}**" in line
    assert ("where the limit matters" in line) == (judged != "satisfied")


def test_a_card_of_ppo_says_that_training_did_not_look_at_costs(tmp_path: Path) -> None:
    run = api.run(tiny(OURS, tmp_path / "run", algorithm="ppo", iterations=1, final_episodes=0)).path
    text = made(run, tmp_path)
    assert "trained to maximise reward alone. Library: focops; algorithm: `ppo`, which does not look at costs." in text
    assert ModelCard(text).data.tags == ["reinforcement-learning", "jax", "ppo", OURS]


def test_a_policy_that_was_not_evaluated_is_said_to_be_unknown(trained: Path, tmp_path: Path) -> None:
    change = lambda summary: summary.update(policy=None, not_evaluated="the run is not finished")
    text = made(with_evaluation(trained, tmp_path, change), tmp_path)
    assert "**Nothing is known of this policy's costs: it was not evaluated** (the run is not finished)" in text
    assert "satisfied" not in text
    assert ModelCard(text).data.eval_results is None


def test_a_card_may_evaluate_anew(trained: Path, tmp_path: Path) -> None:
    data: Any = ModelCard(made(trained, tmp_path, "--episodes", "6")).data
    assert {each.metric_args["episodes"] for each in data.eval_results} == {6}
    reward = focops.evaluate(trained, episodes=6, deterministic=True).reward.mean
    assert data.eval_results[2].metric_value == pytest.approx(reward)


def test_what_is_uploaded_can_be_downloaded_and_loaded(
    trained: Path, tmp_path: Path, at_hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    video = trained / "policy.mp4"
    video.write_bytes(b"moving pictures")
    try:
        text = made(trained, tmp_path, "--push", "someone/policy")
    finally:
        video.unlink()
    assert at_hub.url in capsys.readouterr().out
    assert at_hub.calls[0] == "/api/repos/create"
    assert at_hub.files["README.md"].decode() == text
    assert '<video src="policy.mp4"' in text
    assert at_hub.files["policy.mp4"] == b"moving pictures"
    assert str(trained.parent).encode() not in b"".join(at_hub.files.values())
    folder = snapshot_download("someone/policy", endpoint=at_hub.url, cache_dir=tmp_path / "cache")
    assert f'snapshot_download("{"someone/policy"}")' in text
    obs = np.linspace(-1, 1, focops.load(trained).description["obs_size"])
    actions = [focops.load(path).predict(obs, deterministic=True) for path in (trained, folder)]
    np.testing.assert_array_equal(*actions)
    assert focops.evaluate(folder, episodes=2).reward == focops.evaluate(trained, episodes=2).reward


def test_an_upload_without_a_token_says_how_to_get_one(
    trained: Path, at_hub: FakeHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert cli.main(["card", str(trained), "--push", "someone/policy"]) == 2
    assert "run `hf auth login`, or set HF_TOKEN" in capsys.readouterr().err
    assert at_hub.calls == []


@pytest.mark.parametrize(("status", "why"), [(401, "the token is not valid"), (403, "the token may not write there")])
def test_a_refused_upload_says_why(
    trained: Path, tmp_path: Path, at_hub: FakeHub, capsys: pytest.CaptureFixture[str], status: int, why: str
) -> None:
    at_hub.refuse = status
    words = ["card", str(trained), "--out", str(tmp_path), "--push", "someone/policy"]
    assert cli.main(words) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"refused the upload to someone/policy with status {status} ({why})" in said
    assert (tmp_path / "README.md").is_file()
    assert at_hub.files == {}


def test_a_hub_that_cannot_be_reached_is_said(
    trained: Path, tmp_path: Path, at_hub: FakeHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert cli.main(["card", str(trained), "--out", str(tmp_path), "--push", "someone/policy"]) == 1
    assert "the upload to http://127.0.0.1:9 failed: ConnectError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--push", "policy"], "--push is 'policy'; it must be USER/REPO"),
        (["--push", "some one/policy"], "it must be USER/REPO"),
        (["--out", "card.txt"], "--out is card.txt; its ending must be .md"),
        (["--episodes", "1"], "--episodes is 1; it must be ≥ 2"),
    ],
)
def test_wrong_options_are_refused_with_the_way_out(
    trained: Path, at_hub: FakeHub, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert cli.main(["card", str(trained), *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert at_hub.calls == []


def test_a_run_in_progress_has_no_card_yet(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = with_evaluation(trained, tmp_path, lambda summary: None)
    (copy / "summary.json").unlink()
    assert cli.main(["card", str(copy)]) == 2
    assert "focops resume" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert cli.main(["card", str(trained)]) == 2
    assert "pip install 'focops[hub]'" in capsys.readouterr().err
