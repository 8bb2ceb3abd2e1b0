"""Figures on paper."""

import pytest

from focops.errors import UsageError
from focops.studies import figures
from focops.studies.groups import grouped
from focops.studies.panels import cost_title, panels, scales, seeds_text, styles
from focops.studies.results import read
from tests.studies.factory import LIMIT, make_grid, make_run


def test_a_row_for_each_task_with_return_cost_multiplier_and_kl(tmp_path):
    make_grid(tmp_path / "hopper", seeds=2)
    make_run(tmp_path / "ant", task="AntSpeed-v0", constraints={"speed": 20.0, "heat": 50.0})
    make_run(tmp_path / "begun", task="AntSpeed-v0", algorithm="cpo", done=0)
    figure = figures.draw(grouped(read([tmp_path]).runs))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 6 + 4  # Ant has two constraints
    assert "AntSpeed-v0, 1 seed" in shown[0].get_title(loc="left")
    assert "HopperSpeed-v0, 2 seeds" in shown[6].get_title(loc="left")
    (cost,) = [axes for axes in shown[6:] if "cost" in axes.get_title().lower()]
    assert LIMIT in [line.get_ydata()[0] for line in cost.get_lines()]
    assert [text.get_text() for text in cost.texts] == ["limit 20"]


def test_a_wide_band_does_not_set_the_scale(tmp_path):
    for seed, reward in enumerate((900.0, 1100.0)):  # Student's interval of two seeds is ± 9 standard deviations
        make_run(tmp_path / str(seed), seed=seed, reward=reward)
    figure = figures.draw(grouped(read([tmp_path]).runs), "time")
    assert figure.axes[0].get_ylim()[1] < 1400
    assert figure.axes[0].get_xlabel() == "wall-clock seconds"


def test_the_legend_of_a_search_fits_into_the_figure(tmp_path):
    for i in range(9):
        varied = {f"number_{name}": i + 0.001 for name in "abcdef"}
        make_run(tmp_path / str(i), algo=varied)
    figure = figures.draw(grouped(read([tmp_path]).runs))
    figure.canvas.draw()
    legend, page = figure.legends[0].get_window_extent(), figure.bbox
    assert legend.x0 >= page.x0
    assert legend.x1 <= page.x1
    assert figure.axes[0].get_window_extent().height > 0.4 * page.height


@pytest.mark.parametrize(
    ("iterations", "title", "unit"), [(40, "seconds", 1), (1000, "minutes", 60), (50_000, "hours", 3600)]
)
def test_time_is_in_a_unit_that_suits_the_longest_run(tmp_path, iterations, title, unit):
    make_run(tmp_path / "run")
    groups = grouped(read([tmp_path]).runs)
    groups[0].runs[0].curves["elapsed_s"][:] = 0.2 * iterations  # an iteration of the factory takes as long
    assert scales(groups)["time"] == (f"wall-clock {title}", unit)


def test_a_run_that_has_just_begun_is_a_dot(tmp_path):
    make_run(tmp_path / "run", done=1)
    (line,) = figures.draw(grouped(read([tmp_path]).runs)).axes[-1].get_lines()
    assert (len(line.get_xdata()), line.get_marker()) == (1, "o")


def test_a_plot_without_a_curve_says_why_along_the_axis_of_the_others(tmp_path):
    make_run(tmp_path / "run", done=2)  # no training episode has ended
    returns, cost, *_, kl = figures.draw(grouped(read([tmp_path]).runs)).axes
    assert [axes.texts[0].get_text() for axes in (returns, cost)] == ["no training episode has ended"] * 2
    assert returns.get_xlim() == kl.get_xlim() == (2048, 4096)
    make_run(tmp_path / "begun", seed=1, done=0)
    drawn = figures.draw(grouped(read([tmp_path / "begun"]).runs)).axes
    assert [axes.texts[0].get_text() for axes in drawn] == [
        "no training episode has ended",
        "no iteration has ended yet",
    ]
    assert not any(axes.get_xticks().size for axes in drawn)


def test_what_does_not_vary_is_shown_against_zero():
    assert figures._range(0.0, 0.0) == (-0.06, 1.06)
    assert figures._range(200.0, 200.0) == pytest.approx((-12, 212))
    assert figures._range(-200.0, -200.0) == pytest.approx((-212, 12))
    assert figures._range(100.0, 200.0) == pytest.approx((94, 206))


@pytest.mark.parametrize("name", ["curves.png", "curves.svg", "new/folder/curves.pdf"])
def test_a_figure_is_written_in_the_format_of_its_name(name, tmp_path):
    figures.save(figures.draw(grouped(read([make_run(tmp_path / "run")]).runs)), tmp_path / name)
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert (tmp_path / name).read_bytes().startswith(starts[name[-3:]])


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    figure = figures.draw(grouped(read([make_run(tmp_path / "run")]).runs))
    with pytest.raises(UsageError, match=r"config\.json/x\.png cannot be written"):
        figures.save(figure, tmp_path / "run" / "config.json" / "x.png")


def test_thirty_five_lines_differ_in_colour_or_dash_and_as_many_dots_in_colour_or_symbol():
    found = styles([str(i) for i in range(35)])
    assert len({(style.colour, style.dash) for style in found.values()}) == 35
    assert len({(style.colour, style.symbol) for style in found.values()}) == 35


def test_a_group_looks_the_same_in_the_figure_of_each_task(tmp_path):
    make_run(tmp_path / "a", task="AntSpeed-v0", algorithm="cpo")
    make_run(tmp_path / "b", task="HopperSpeed-v0", algorithm="focops")
    groups = grouped(read([tmp_path]).runs)
    look = styles([group.label for group in groups])
    (line, *_) = figures.draw(groups[1:], look=look).axes[0].get_lines()
    assert line.get_color() == look["focops"].colour != styles(["focops"])["focops"].colour


def test_the_cost_is_named_by_its_discount(tmp_path):
    assert cost_title("speed", 0.99) == "Discounted cost (γ = 0.99), speed"
    assert cost_title("speed", 1.0) == "Cost per episode, speed"
    assert cost_title("speed", float("nan")) == "Discounted cost, speed"
    make_run(tmp_path / "a", constraints={"speed": 20.0}, cost_limit=[20.0])
    make_run(tmp_path / "b", constraints={"speed": 30.0}, cost_limit=[30.0])
    found = grouped(read([tmp_path]).runs)
    assert panels(found)[1].limits == (20.0, 30.0)
    assert seeds_text(found) == "1 seed"
