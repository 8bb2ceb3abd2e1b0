"""What a search varies, as text, and what is refused before anything is trained."""

import dataclasses

import pytest

from focops.algorithms import ALGORITHMS
from focops.config import default_config
from focops.errors import UsageError
from focops.tuning import space as spaces
from focops.tuning.space import Choices, Interval

HOPPER = default_config("HopperSpeed-v0")


def test_a_range_a_logarithmic_range_and_a_list_are_read() -> None:
    texts = ["algo.temperature=0.3..10:log", "algo.nu_lead=0..20", "algo.epochs=2..8", "algo.minibatch-size=64,128"]
    assert spaces.parse(texts, HOPPER) == {
        "algo.temperature": Interval(0.3, 10.0, log=True),
        "algo.nu-lead": Interval(0.0, 20.0),
        "algo.epochs": Interval(2, 8, whole=True),
        "algo.minibatch-size": Choices((64, 128)),
    }


def test_switches_and_names_are_lists_of_their_values() -> None:
    space = spaces.parse(["algo.settle=True,False", "algo.cost-estimator=ages,episodes", "margin=0,0.02"], HOPPER)
    assert [each.values for each in space.values() if isinstance(each, Choices)] == [
        (True, False),
        ("ages", "episodes"),
        (0.0, 0.02),
    ]


def test_a_space_as_text_is_read_again() -> None:
    space = spaces.parse(["algo.temperature=3e-1..1e1:log", "algo.nu-max=1,2,inf", "algo.epochs=2..8:log"], HOPPER)
    assert spaces.parse([f"{name}={values}" for name, values in space.items()], HOPPER) == space


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize("task", ["HopperSpeed-v0", "AntCircle-v0", "CartPole-v1"])
@pytest.mark.parametrize("preset", ["fast", "paper"])
def test_the_usual_space_of_an_algorithm_has_its_defaults_in_it(algorithm: str, task: str, preset: str) -> None:
    config = default_config(task, algorithm, preset)
    space = spaces.parse(spaces.default(config), config)
    spaces.require_runs(space, config)
    start = spaces.start(space, config, lambda name: True)
    assert start is not None
    assert spaces.applied(config, start) == config


def test_the_usual_space_leaves_out_what_changes_nothing_where_the_multiplier_is_solved_for() -> None:
    config = lambda solve_dual: dataclasses.replace(
        HOPPER, algo=dataclasses.replace(HOPPER.algo, solve_dual=solve_dual)
    )
    named = lambda solve_dual: [
        name for name in spaces.parse(spaces.default(config(solve_dual)), HOPPER) if name.startswith("algo.nu")
    ]
    assert (named(True), named(False)) == ([], ["algo.nu-rate", "algo.nu-lead"])


def test_a_default_outside_the_space_is_no_start_but_a_value_that_was_given_must_be_inside() -> None:
    space = spaces.parse(["algo.temperature=5..10"], HOPPER)
    assert spaces.start(space, HOPPER, lambda name: False) is None
    with pytest.raises(UsageError, match=r"--algo.temperature is 1.5, .* it searches 5.0..10.0;"):
        spaces.start(space, HOPPER, lambda name: True)


def test_proposals_have_four_digits_and_stay_inside() -> None:
    values = Interval(0.12345678, 9.87654321, log=True)
    assert values.rounded(1.23456) == 1.235
    assert values.rounded(0.12345679) == 0.1235
    assert values.rounded(9.87654321) == values.high  # 9.877 would be outside
    assert Interval(1, 10**6, whole=True).rounded(123456) == 123456


def test_lists_have_as_many_points_as_combinations_and_ranges_endless() -> None:
    assert spaces.points({"a": Choices((1, 2, 3)), "b": Interval(2, 5, whole=True)}) == 12
    assert spaces.points({"a": Choices((1, 2)), "b": Interval(0.0, 1.0)}) == float("inf")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("algo.temprature=1..2", "algo.temprature is no number of focops; did you mean algo.temperature"),
        ("temperature=1..2", "did you mean algo.temperature?"),
        ("algo.clip=0.1..0.2", "algo.clip is no number of focops"),
        ("cost-limit=1..2", "cost-limit cannot be searched; there are: algo.bootstrap-time-limit"),
        ("algo.limits=1,2", "algo.limits is no number of focops"),
        ("algo.hidden=64,128", "algo.hidden is not one number and cannot be searched"),
        ("algo.temperature", "has no values; write NAME=LOW..HIGH"),
        ("algo.temperature=", "has no values"),
        ("algo.temperature=-1..2", "-1.0 is outside; it must be a positive number"),
        ("algo.gae=0.9..1.5", r"1.5 is outside; it must be in \[0, 1\]"),
        ("algo.gae=0.9,1.5", r"1.5 is outside; it must be in \[0, 1\]"),
        ("margin=0..1", r"1.0 is outside; it must be in \[0, 1\)"),
        ("algo.temperature=2..1", "the range is empty: 2.0 is not below 1.0"),
        ("algo.temperature=2..2", "the range is empty"),
        ("algo.temperature=nan..2", "the range is empty"),
        ("algo.nu-rate=0..1:log", "a logarithmic range must begin above 0, and this one begins at 0.0"),
        ("algo.nu-rate=0.1..1:ln", "unknown scale 'ln'"),
        ("algo.nu-rate=1..inf", "finite ends"),
        ("algo.nu-rate=1,2:log", "a list has no scale"),
        ("algo.nu-rate=one..2", "'one' is not a number"),
        ("algo.epochs=2.5..4", "'2.5' is not a whole number"),
        ("algo.minibatch-size=64..256", "list them, as 64,128,256"),
        ("algo.gae=0.9", "one value leaves nothing to search"),
        ("algo.gae=0.9,0.90", "a value is there twice"),
        ("algo.settle=True..False", "no range; list its values"),
        ("algo.settle=True,maybe", "'maybe' is not one of True, False"),
    ],
)
def test_what_cannot_be_searched_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spaces.parse([text], HOPPER)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match=r"names algo.nu-rate twice"):
        spaces.parse(["algo.nu-rate=1,2", "algo.nu_rate=3,4"], HOPPER)


def test_sizes_that_do_not_go_together_are_refused() -> None:
    space = spaces.parse(["algo.minibatch-size=64,128", "batch-size=1024,2080"], HOPPER)
    with pytest.raises(UsageError, match=r"proposes what no run takes: --algo.minibatch-size is 64.*\(2080\)"):
        spaces.require_runs(space, HOPPER)
