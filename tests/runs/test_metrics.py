"""metrics.jsonl is always valid, can be cut back, and reaches TensorBoard."""

import json
import math
import struct
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from tensorboardX.proto import event_pb2

from focops.errors import UsageError
from focops.runs import sinks
from focops.runs.observers import Observers
from focops.runs.sinks import JSONL, read_last


def records(path: Path) -> list[dict]:
    return [json.loads(line, parse_constant=pytest.fail) for line in (path / "metrics.jsonl").read_text().splitlines()]


def events(path: Path) -> list:
    """All events, file by file in the order of writing; the framing is length, checksum, data, checksum."""
    found = []
    for file in sorted(path.glob("events*"), key=lambda file: file.stat().st_mtime_ns):
        data = file.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            found.append(event_pb2.Event.FromString(data[12 : 12 + size]))
            data = data[16 + size :]
    return found


def scalars(path: Path, tag: str) -> list[tuple[int, float]]:
    return [(e.step, v.simple_value) for e in events(path) for v in e.summary.value if v.tag == tag]


def test_records_are_one_object_per_line(tmp_path: Path) -> None:
    log = Observers(tmp_path)
    log.write({"samples": 1, "return_mean": None, "note": "über"})
    log.write({"samples": 2, "return_mean": 0.1 + 0.2})
    log.close()
    assert records(tmp_path) == [
        {"samples": 1, "return_mean": None, "note": "über"},
        {"samples": 2, "return_mean": 0.1 + 0.2},
    ]


def test_a_record_is_there_before_the_log_is_closed(tmp_path: Path) -> None:
    log = Observers(tmp_path)
    log.write({"samples": 1})
    assert records(tmp_path) == [{"samples": 1}]
    log.close()


def test_numbers_that_json_cannot_hold_become_null(tmp_path: Path) -> None:
    log = Observers(tmp_path)
    log.write(
        {"samples": 1, "a": math.nan, "b": -math.inf, "c": np.float32("inf"), "d": np.float32(0.5), "e": [math.nan]}
    )
    log.close()
    assert records(tmp_path) == [{"samples": 1, "a": None, "b": None, "c": None, "d": 0.5, "e": [None]}]


def test_a_resumed_log_equals_one_never_interrupted(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = Observers(tmp_path / "whole")
    for i in range(6):
        whole.write({"samples": i})
    whole.close()

    log = Observers(tmp_path / "cut")
    for i in range(3):
        log.write({"samples": i})
    log.write({"samples": 3, "lost": True})
    log.close()
    with open(tmp_path / "cut" / "metrics.jsonl", "ab") as file:
        file.write(b'{"samples": 4, "half')
    resumed = Observers(tmp_path / "cut", iteration=3)
    assert read_last(tmp_path / "cut" / "metrics.jsonl") == {"samples": 2}
    for i in range(3, 6):
        resumed.write({"samples": i})
    resumed.close()
    assert (tmp_path / "cut" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()


def test_lost_records_are_said_and_the_log_goes_on(tmp_path: Path) -> None:
    log = Observers(tmp_path)
    log.write({"samples": 1})
    log.close()
    with pytest.warns(UserWarning, match="has lost records"):
        log = Observers(tmp_path, iteration=1000)
    log.write({"samples": 2})
    log.close()
    assert records(tmp_path) == [{"samples": 1}, {"samples": 2}]


def test_tensorboard_gets_every_number_at_its_sample(tmp_path: Path) -> None:
    log = Observers(tmp_path)
    log.write({"samples": 2048, "nu/speed": 0.5, "return_mean": None, "note": "text"})
    log.write({"samples": 4096, "nu/speed": 0.25, "return_mean": 3.0})
    log.close()
    assert scalars(tmp_path, "nu/speed") == [(2048, 0.5), (4096, 0.25)]
    assert scalars(tmp_path, "return_mean") == [(4096, 3.0)]


def test_tensorboard_drops_what_a_resumed_run_does_again(tmp_path: Path) -> None:
    log = Observers(tmp_path)
    log.write({"samples": 10})
    log.write({"samples": 20})
    log.close()
    resumed = Observers(tmp_path, iteration=1)
    resumed.write({"samples": 20})
    resumed.close()
    starts = [event.step for event in events(tmp_path) if event.HasField("session_log")]
    assert starts == [11]


def test_synced_events_are_on_the_disk(tmp_path: Path) -> None:
    log = Observers(tmp_path)
    log.write({"samples": 10, "x": 1.0})
    log.sync()
    assert scalars(tmp_path, "x") == [(10, 1.0)]
    log.close()


def test_a_failing_sink_is_dropped_with_a_warning_and_the_log_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(sinks.TensorBoard, "write", full)
    log = Observers(tmp_path)
    with pytest.warns(UserWarning, match="no more metrics to TensorBoard: No space left"):
        log.write({"samples": 1})
    log.write({"samples": 2})
    log.close()
    assert records(tmp_path) == [{"samples": 1}, {"samples": 2}]


def test_an_optional_sink_that_does_not_open_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.warns(UserWarning, match="no metrics to WandB: No module named 'wandb'"):
        log = Observers(tmp_path, [sinks.optional(sinks.WandB)])
    log.write({"samples": 1})
    log.close()
    assert (records(tmp_path), log.stop) == ([{"samples": 1}], False)


def test_weights_and_biases_keeps_its_id_when_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = mock.MagicMock(__spec__=object())
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    (tmp_path / "config.json").write_text('{"seed": 3}')
    for iteration in (0, 1):
        log = Observers(tmp_path, sinks.asked_for(wandb=True), iteration=iteration)
        log.write({"samples": 64 * (iteration + 1), "return_mean": None, "kl": 0.5})
        log.close()
    first, second = wandb.init.call_args_list
    assert first.kwargs["config"] == {"seed": 3}
    assert first.kwargs["id"] == second.kwargs["id"]
    logged = wandb.init.return_value.log.call_args_list
    assert logged == [mock.call({"samples": n, "kl": 0.5}, step=n) for n in (64, 128)]


def test_weights_and_biases_is_left_what_its_variables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = mock.MagicMock(__spec__=object())
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    (tmp_path / "config.json").write_text("{}")
    names = ("project", "name", "id", "resume", "dir")
    for name in names:
        monkeypatch.delenv(sinks.WandB.VARIABLES[name], raising=False)
    sinks.WandB(tmp_path)
    assert set(wandb.init.call_args.kwargs) == {"config", *names}
    for name in names:
        with monkeypatch.context() as patch:
            patch.setenv(sinks.WandB.VARIABLES[name], "theirs")
            sinks.WandB(tmp_path)
        assert set(wandb.init.call_args.kwargs) == {"config", *names} - {name}


def test_wandb_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'focops\[wandb\]'"):
        sinks.asked_for(wandb=True)


def test_an_unwritable_log_is_explained(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(UsageError, match="could not write"):
        JSONL(tmp_path)


@pytest.mark.parametrize("size", [10, 5_000, 20_000, 100_000])
def test_the_last_record_is_found_whatever_its_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "metrics.jsonl"
    last = {"samples": 2, "text": "x" * size}
    path.write_text("\n".join([json.dumps({"samples": 1}), json.dumps(last), '{"half']))
    assert read_last(path) == last


def test_no_record_yet_is_none(tmp_path: Path) -> None:
    assert read_last(tmp_path / "metrics.jsonl") is None
    (tmp_path / "metrics.jsonl").write_text('{"half')
    assert read_last(tmp_path / "metrics.jsonl") is None


@pytest.mark.parametrize("line", ["5", "[]", "null", "{}", '{"samples": null}', '{"samples": 1e999}', "[" * 100_000])
def test_a_line_that_is_no_record_is_said_and_the_log_goes_on(tmp_path: Path, line: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"samples": 1}}\n{line}\n')
    assert read_last(path) is None
    with pytest.warns(UserWarning, match="is damaged at line 2; the run itself is not"):
        log = Observers(tmp_path, iteration=2)
    log.write({"samples": 3})
    log.close()
    assert read_last(path) == {"samples": 3}
