"""What the tests of many runs as one program share."""

from pathlib import Path

import pytest

from focops import api as runs
from tests.training.device.cases import varied


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs as they are if nothing happens to them."""
    base = tmp_path_factory.mktemp("finished")
    outcomes = runs.run_all(varied(base))
    assert all(outcome.summary["finished"] for outcome in outcomes)
    return base
