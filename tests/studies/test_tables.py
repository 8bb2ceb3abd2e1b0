"""Figures of groups against independent computations, and their three forms."""

import json

import numpy as np
import pytest

from focops.studies import statistics
from focops.studies.comparison import figures, improvement, over_tasks, sensitivity
from focops.studies.groups import grouped
from focops.studies.panels import panels
from focops.studies.report import Study
from focops.studies.results import read
from focops.studies.tables import Cell, Table, all_tasks, tables, to_html, to_latex, to_markdown
from tests.studies.factory import LIMIT, make_grid, make_run


def groups(path):
    return grouped(read([path]).runs)


def test_a_groups_figures_are_over_its_finished_runs(tmp_path):
    make_grid(tmp_path, seeds=4)
    failed = make_run(tmp_path / "failed", seed=8, done=10)
    (failed / "failure.safetensors").touch()
    make_run(tmp_path / "running", seed=9, done=5)
    (group,) = groups(tmp_path)
    found = figures(group)
    finished = [run for run in group.runs if run.status == "finished"]
    rewards, costs = (np.array([run.final(name) for run in finished]) for name in ("return_mean", "cost/speed"))
    assert found.seeds == 4
    assert found.reward == statistics.mean(rewards)
    (cost,) = found.costs.values()
    assert cost.within.value == np.mean(costs <= LIMIT)
    assert cost.worst_violation == max(np.nanmax(run.curves["cost/speed"]) for run in finished) - LIMIT
    # the paper has 1953.4 ± 127.3 for this task
    error = np.hypot(found.reward.half_width, 127.3) / 1.96
    assert found.delivered.policies == 4
    (training, robust) = tables([found])
    difference = training.rows[0][training.columns.index("Δ reward")].value
    assert difference == pytest.approx((found.reward.value - 1953.4) / error, rel=1e-3)
    assert training.rows[0][1].text == "4 (+1 failed; +1 not finished)"
    assert robust.rows[0][2].text == f"{(costs <= LIMIT).sum()} of 4"


def test_runs_in_progress_are_compared_if_none_is_finished(tmp_path):
    for seed in range(2):
        make_run(tmp_path / str(seed), seed=seed, done=10)
    found = figures(groups(tmp_path)[0])
    assert found.delivered is None
    training, robust = tables([found])
    assert training.rows[0][1].text == "2 (2 not finished)"
    assert training.rows[0][2] == Cell("20.5k", 20480)
    assert robust.rows[0][-1].text == "–"


def test_negative_numbers_have_a_minus_sign_and_zero_has_none(tmp_path):
    make_grid(tmp_path / "a", reward=-100.0)
    make_grid(tmp_path / "b", reward=-100.0, task="AntSpeed-v0")
    study = Study(read([tmp_path]))
    made = [table for each in (*study.tables.values(), study.overall) for table in each]
    shown = [cell.text for table in made for row in table.rows for cell in row]
    assert any(text.startswith("−10") for text in shown)
    assert not any("-" in text for text in shown if not text.endswith("-v0"))
    assert not any("−0.00" in text for text in shown)


def test_a_group_without_an_ended_episode_has_no_figures(tmp_path):
    (group,) = groups(make_run(tmp_path / "run", done=1))
    assert figures(group) is None
    assert tables([]) == []


def test_every_constraint_has_its_columns_and_none_the_papers_cost(tmp_path):
    (group,) = groups(make_grid(tmp_path / "grid", constraints={"speed": 20.0, "heat": 30.0}))
    training, robust = tables([figures(group)])
    assert [name for name in training.columns if "limit" in name] == ["limit speed", "limit heat"]
    assert {"worst violation speed", "worst violation heat", "policy: cost heat"} < set(robust.columns)
    row = dict(zip(training.columns, training.rows[0], strict=True))
    assert row["cost heat"].bad  # twice the cost of the other
    assert row["cost heat, the paper"].value is None  # which constraint it is of is not known


def test_a_group_without_constraints_has_dashes_beside_one_that_has_them(tmp_path):
    make_grid(tmp_path / "focops")
    make_grid(tmp_path / "ppo", algorithm="ppo", constraints={})
    training, robust, _ = tables([figures(group) for group in groups(tmp_path)])
    assert [row[training.columns.index("limit")].text for row in training.rows] == ["20", "–"]
    assert [row[-1].text for row in robust.rows] == ["4 of 4", "–"]


def test_groups_are_compared_in_pairs(tmp_path):
    make_grid(tmp_path / "better", reward=1000.0)
    make_grid(tmp_path / "worse", reward=300.0, algorithm="cpo")
    cpo, focops = groups(tmp_path)
    assert improvement(focops, cpo).value == 1.0
    _, _, table = tables([figures(cpo), figures(focops)])
    assert [[cell.value for cell in row[1:]] for row in table.rows] == [[None, 0.0], [1.0, None]]


def test_over_tasks_rewards_are_shares_of_the_published_ones(tmp_path):
    make_grid(tmp_path / "hopper", task="HopperSpeed-v0", reward=1953.4)
    make_grid(tmp_path / "ant", task="AntSpeed-v0", reward=1830.0)
    make_grid(tmp_path / "unpublished", task="PointCircle-v0")
    found = groups(tmp_path)
    ((label, (tasks, estimate)),) = over_tasks(found).items()
    assert (label, tasks) == ("focops", ["AntSpeed-v0", "HopperSpeed-v0"])
    assert estimate.value == pytest.approx(1.0, abs=0.1)
    assert all_tasks(found)[0].rows[0][1].value == estimate.value
    assert all_tasks(found[:1]) == []


def test_what_was_published_stands_beside_runs_of_the_published_limit_only(tmp_path):
    for limit in (51.5575, 103.115):
        own = {"cost_limit": [limit], "constraints": {"speed": limit}}
        make_grid(tmp_path / f"{limit}", task="AntSpeed-v0", reward=1830.0, cost=limit, **own)
    strict, own = (figures(group) for group in groups(tmp_path))
    assert [each and each.published and each.published.reward for each in (strict, own)] == [None, 1830.0]


def test_limits_are_drawn_of_the_algorithms_that_look_at_them(tmp_path):
    make_grid(tmp_path / "ppo", algorithm="ppo", constraints={"speed": 10.0})
    make_grid(tmp_path / "focops", constraints={"speed": 20.0})
    found = groups(tmp_path)
    assert [panel.limits for panel in panels(found) if panel.metric == "cost/speed"] == [(20.0,)]
    assert [panel.limits for panel in panels(found[1:]) if panel.metric == "cost/speed"] == [(10.0,)]


def test_algorithms_of_which_the_same_setting_varies_are_rows_of_one_sensitivity(tmp_path):
    for algorithm in ("focops", "ppo_lagrangian"):
        for nu_max in (1.0, 2.0, 10.0):
            own = {"algorithm": algorithm, "algo": {"nu_max": nu_max}, "reward": 100 * nu_max}
            make_grid(tmp_path / f"{algorithm}-{nu_max}", seeds=1, **own)
    (found,) = sensitivity(groups(tmp_path))
    assert (found.column_setting, found.columns) == ("nu_max", ["1", "2", "10"])
    assert (found.row_setting, found.rows) == ("algorithm", ["focops", "ppo_lagrangian"])
    assert found.reward[1][0] == groups(tmp_path)[3].final("return_mean").mean()


def test_limits_as_settings_are_in_the_order_of_their_size(tmp_path):
    for limit in (122.0, 40.0, 81.0):
        make_grid(tmp_path / f"{limit}", seeds=1, cost_limit=[limit], constraints={"speed": limit})
    assert [group.label for group in groups(tmp_path)] == [f"focops · cost_limit {limit}" for limit in (40, 81, 122)]


def test_sensitivity_is_a_table_of_two_settings(tmp_path):
    for temperature in (10.0, 2.0):
        for nu_max in (1.0, 2.0, 3.0):
            algo = {"temperature": temperature, "nu_max": nu_max}
            make_run(tmp_path / f"{temperature}{nu_max}", algo=algo, reward=100 * temperature + nu_max)
    make_run(tmp_path / "cpo", algorithm="cpo")
    found = groups(tmp_path)
    (table,) = sensitivity(found)
    assert (table.column_setting, table.columns) == ("nu_max", ["1", "2", "3"])
    assert (table.row_setting, table.rows) == ("temperature", ["2", "10"])
    best = next(group for group in found if group.label == "focops · temperature 10 · nu_max 3")
    assert table.reward[1][2] == best.final("return_mean")[0]
    assert table.cost[1][2] == pytest.approx(best.final("cost/speed")[0] / LIMIT)


def test_sensitivity_to_one_setting_has_one_row_and_a_missing_value_is_nan(tmp_path):
    for temperature in (1.0, 2.0):
        make_run(tmp_path / str(temperature), algo={"temperature": temperature})
    (one,) = sensitivity(groups(tmp_path))
    assert (one.rows, len(one.reward)) == ([""], 1)
    make_run(tmp_path / "other", algo={"temperature": 2.0, "nu_max": 9.0})
    (two,) = sensitivity(groups(tmp_path))
    assert np.isnan(two.reward).sum() == 1


TABLE = Table("t", "Title", "Note.", ["", "a_b"], [[Cell("x|<y>"), Cell("1 ± 2 %", 1.25, bad=True)]])


def test_a_table_in_markdown():
    assert to_markdown(TABLE).splitlines() == [
        "### Title", "", "|  | a_b |", "|---|---:|", "| x\\|<y> | 1 ± 2 % |", "", "Note.",
    ]  # fmt: skip


def test_a_table_in_latex():
    lines = to_latex(TABLE).splitlines()
    assert lines[1] == r"\begin{tabular}{lr}"
    assert r" & a\_b \\" in lines
    assert r"x|<y> & 1 $\pm$ 2 \% \\" in lines


def test_a_table_in_html_is_escaped_and_has_its_numbers():
    text = to_html(TABLE)
    assert '<th scope="row">x|&lt;y&gt;</th>' in text
    assert '<td data-column="a_b" data-value="1.25" class="over">1 ± 2 %</td>' in text


def test_the_best_seeds_on_unseen_seeds_are_a_table_of_their_own(tmp_path):
    make_grid(tmp_path / "focops", seeds=2)
    best = tmp_path / "focops" / "seed=1"
    cost = {"limit": LIMIT, "discounted_cost": {"mean": 21.0, "std": 2.0}, "verdict": "violated"}
    found = {
        "run": f"elsewhere/{best.name}", "episodes": 100, "seeds": [*range(10)],
        "reward": {"mean": 900.0, "std": 50.0}, "constraints": {"speed": cost},
    }  # fmt: skip
    (tmp_path / "focops" / "evaluation.json").write_text(json.dumps([found]))
    study = Study(read([tmp_path / "focops"]))
    made = next(table for table in study.tables["HopperSpeed-v0"] if table.name == "unseen")
    row = dict(zip(made.columns, (cell.text for cell in made.rows[0]), strict=True))
    assert row == {
        "": "focops", "seed": "1", "reward": "900.0 ± 9.8", "reward, the paper": "2446 ± 9", "Δ reward": "−227.8",
        "cost": "21.00 ± 0.39", "limit": "20", "cost, the paper": "81.3 ± 0.9", "Δ cost": "−122.6",
        "verdict": "violated",
    }  # fmt: skip
    assert "100 episodes of 10 seeds" in made.note
    assert (900 - 2446.2) / np.hypot(50 / 10, 9 / 1.96) == pytest.approx(-227.8, abs=0.1)
    (tmp_path / "focops" / "evaluation.json").write_text(json.dumps([found, found | {"run": "seed=0"}]))
    study = Study(read([tmp_path / "focops"]))
    assert all(table.name != "unseen" for table in study.tables["HopperSpeed-v0"])  # two seeds of one group
