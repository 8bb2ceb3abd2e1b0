"""Studies as files: what they say, and the runs that they stand for."""

import tomllib
from pathlib import Path

import pytest

from focops.cli import arguments, grid
from focops.cli.study_runs import points_of
from focops.config import validate
from focops.errors import UsageError
from focops.studies import definition

SMALL = 'title = "Small"\ntasks = ["AntSpeed", "HopperSpeed"]\nalgorithms = ["focops", "cpo"]\n'


def test_the_papers_studies_and_the_fields_have_their_sizes():
    sizes = {name: len(points_of(definition.load(name), "cpu")) for name in definition.builtin()}
    assert sizes == {
        "speed-limit": 6 * 5 * 10, "circle": 2 * 5 * 10, "generalization": 6 * 4 * 10, "lambda": 6 * 10 * 3,
        "nu-max": 6 * 3 * 6 * 3, "thresholds": 6 * 3 * 10, "velocity": 6 * 4 * 5,
    }  # fmt: skip


@pytest.mark.parametrize("name", definition.builtin())
def test_every_run_of_a_built_in_study_can_be_trained(name):
    points = points_of(definition.narrowed(definition.load(name), seeds="0"), "cpu")
    assert len({point.name for point in points}) == len(points)
    for point in points:
        config = arguments.parse(point.words).config
        validate(config)
        assert config.preset == definition.load(name).preset


def test_the_words_of_a_run_are_those_of_its_point():
    study = definition.parse(
        "s", SMALL + 'preset = "paper"\nsteps = "2k"\nseeds = 2\n[vary]\n"algo.discount" = [0.9, 0.99]'
    )
    points = points_of(study, "cpu")
    assert len(points) == 2 * 2 * 2 * 2
    assert points[1].name == "AntSpeed,focops,discount=0.9,seed=1"
    config = arguments.parse(points[1].words).config
    assert (config.task, config.algorithm, config.preset) == ("AntSpeed-v0", "focops", "paper")
    assert (config.algo.discount, config.steps, config.seed) == (0.9, 2000, 1)


def test_limits_are_shares_of_the_tasks_own():
    study = definition.parse("s", SMALL + "limit_shares = [0.5, 1.5]")
    found = [arguments.parse(point.words).config.cost_limit for point in points_of(study, "cpu")[:2]]
    assert found == [(pytest.approx(0.5 * 103.115),), (pytest.approx(1.5 * 103.115),)]


def test_limits_of_another_algorithm_are_shares_of_what_its_runs_cost():
    study = definition.parse("s", SMALL + 'limit_shares = [0.5, 1.5]\nlimits_of = "ppo"')
    found = [
        arguments.parse(point.words).config.cost_limit
        for point in points_of(study, "cpu", {"AntSpeed": [200.0], "HopperSpeed": [80.0]})
    ]
    assert found == [(100.0,), (300.0,)] * 2 + [(40.0,), (120.0,)] * 2


def test_the_runs_that_limits_are_taken_from_are_those_of_a_study_of_their_algorithm():
    """So that the PPO runs of `speed-limit` serve `thresholds`."""
    first = definition.measured(definition.load("thresholds"))
    assert first is not None
    of_speed_limit = points_of(definition.narrowed(definition.load("speed-limit"), algorithms=("ppo",)), "cpu")
    assert points_of(first, "cpu") == of_speed_limit
    assert definition.measured(definition.load("speed-limit")) is None


def test_a_setting_is_left_out_where_an_algorithm_does_not_have_it():
    study = definition.parse("s", SMALL + '[set]\n"algo.minibatch-size" = 256\n"num-envs" = 8')
    first_order, second_order = (points_of(study, "cpu")[i] for i in (0, 1))
    assert grid.value_of(grid.split(first_order.words), "--algo.minibatch-size", "") == "256"
    assert grid.value_of(grid.split(second_order.words), "--algo.minibatch-size", "") == ""
    assert arguments.parse(second_order.words).config.num_envs == 8


def test_a_setting_does_not_vary_where_an_algorithm_does_not_have_it():
    study = definition.parse("s", SMALL + '[vary]\n"algo.temperature" = [1, 2]')
    names = [point.name for point in points_of(definition.narrowed(study, tasks=("AntSpeed",)), "cpu")]
    assert names == [
        "AntSpeed,focops,temperature=1,seed=0", "AntSpeed,focops,temperature=2,seed=0", "AntSpeed,cpo,seed=0",
    ]  # fmt: skip


def test_several_numbers_of_one_flag_are_a_list():
    study = definition.parse("s", SMALL + '[set]\n"algo.hidden" = [8, 4]\n[vary]\n"cost-limit" = [[0.1234567], [25]]')
    first = points_of(study, "cpu")[0]
    assert first.name == "AntSpeed,focops,cost-limit=0.1234567,seed=0"
    config = arguments.parse(first.words).config
    assert (config.algo.hidden, config.cost_limit) == ((8, 4), (0.1234567,))


def test_a_study_is_narrowed_by_what_is_given():
    study = definition.narrowed(definition.load("speed-limit"), tasks=("AntSpeed",), seeds="0..2", steps=None)
    assert (study.tasks, study.seeds, study.steps) == (("AntSpeed",), "0..2", "1M")
    assert len(points_of(study, "mjx")) == 15
    assert points_of(study, "mjx")[0].words[-4:] == ("--backend", "mjx", "--seed", "0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "s.toml is no TOML"),
        (SMALL + "colour = 1", "unknown entry 'colour'; there are: algorithms, "),
        ('title = "x"\ntasks = ["AntSpeed"]', "lacks algorithms"),
        (SMALL.replace('["focops", "cpo"]', '"focops"'), "algorithms is 'focops'; it must be a list"),
        ('title = 5\ntasks = ["AntSpeed"]\nalgorithms = ["focops"]', "title is 5; it must be a text in quotes"),
        (SMALL + "seeds = true", "seeds is True; it must be their number, or which"),
        (SMALL + 'evaluate_best = "mine"', "evaluate_best is 'mine'; there is: paper"),
        (SMALL + '[set]\n"algo.temprature" = 2', r"\[set\] has 'algo.temprature', a flag that none of focops, cpo has"),
        (SMALL + "[vary]\nseed = [1, 2]", r"\[vary\] has 'seed'; leave it out: seeds is an entry of its own"),
        (SMALL + 'limit_shares = [1]\n[set]\n"cost-limit" = 3', "cost-limit beside limit_shares; leave one of them"),
        (SMALL + "limit_shares = [0]", "limit_shares has 0; it must be a positive number"),
        (SMALL + 'limits_of = "ppo"', "has limits_of without limit_shares"),
        (SMALL + '[vary]\n"algo.discount" = 0.9', r"algo.discount in \[vary\] is 0.9; it must be a list"),
        (SMALL + "set = 3", "set is 3; it must be a table"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(text, message):
    with pytest.raises(UsageError, match=message):
        definition.parse("s", text)


def test_an_unknown_study_is_refused_with_those_there_are(tmp_path):
    with pytest.raises(UsageError, match=r"no study 'speed'; there are: circle, .*velocity"):
        definition.load("speed")
    with pytest.raises(UsageError, match="cannot read"):
        definition.load(str(tmp_path / "none.toml"))


def test_the_example_in_the_docstring_is_a_study():
    text = str(definition.__doc__)
    example = text[text.index("    title") : text.index("The files in")]
    assert set(tomllib.loads(example)) >= {"title", "tasks", "algorithms", "seeds", "set", "vary"}
    assert len(points_of(definition.parse("s", example), "cpu")) == 2 * 2 * 2 * 3


def test_the_example_in_the_documentation_is_a_study():
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    example = page[page.index("```toml") + 7 : page.rindex("```")]
    assert len(points_of(definition.parse("s", example), "cpu")) == 2 * 3 * 3
    assert all(f"| `{name}` |" in page for name in definition.builtin())
