"""The report in a real browser: it loads without a network, its controls work, its numbers are those of the data."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from focops.studies import report
from focops.studies.results import read
from tests.browser import chromium, forget, narrow, needs_chromium, requested
from tests.studies.factory import LIMIT, make_grid, make_run

pytestmark = needs_chromium
DRAWN = "return [...document.querySelectorAll('#curves .js-plotly-plot')]"
PLOTS = f"{DRAWN}.map(plot => plot.data.filter(trace => trace.name).map(trace => trace.name))"
RANGE = f"{DRAWN}[0].layout.xaxis.range"


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    """Two algorithms on one task with a seed still in progress, a grid of settings on another."""
    base = tmp_path_factory.mktemp("study")
    make_grid(base / "focops", seeds=4)
    make_grid(base / "cpo", seeds=3, algorithm="cpo", reward=700.0, cost=21.0)
    make_run(base / "focops" / "seed=4", seed=4, done=20)
    for temperature in (1.0, 2.0):
        for nu_max in (1.0, 2.0, 3.0):
            own = {"temperature": temperature, "nu_max": nu_max}
            far = {"cost": 80.0, "iterations": 10}
            make_grid(base / f"{temperature}-{nu_max}", seeds=2, task="PointCircle-v0", algo=own, **far)
    report.write_page(report.Study(read([base])), base / "report.html", "A <study>")
    return base


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def page(browser, study) -> webdriver.Chrome:
    """The report as it opens."""
    browser.get("about:blank")  # or another address of the same page would not load it again
    forget(browser)
    browser.get((study / "report.html").as_uri())
    return browser


def press(page: webdriver.Chrome, holder: str, label: str) -> None:
    (found,) = [b for b in page.find_elements(By.CSS_SELECTOR, f"{holder} button") if b.text.startswith(label)]
    found.click()


def cell(page: webdriver.Chrome, table: str, row: str, column: str) -> float:
    """The number behind a visible cell."""
    for found in page.find_elements(By.CSS_SELECTOR, f"#{table} tbody tr"):
        if found.is_displayed() and found.find_element(By.TAG_NAME, "th").text == row:
            shown = found.find_element(By.CSS_SELECTOR, f'td[data-column="{column}"]')
            return float(shown.get_attribute("data-value"))
    raise AssertionError(f"no row {row} in {table}")


def ends(grid: Path, key: str) -> list[float]:
    """A metric at the end of every finished run of a grid, straight from the files."""
    finished = [file.parent for file in sorted(grid.glob("*/summary.json"))]
    return [json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])[key] for run in finished]


def test_it_loads_without_a_network_and_without_complaints(page):
    assert page.title == "A <study>"
    assert page.find_element(By.ID, "status").text == "20 runs: 19 finished, 1 not finished"
    assert {address.partition(":")[0] for address in requested(page)} <= {"file", "data", "blob", "about"}
    assert page.get_log("browser") == []


def test_the_tables_numbers_are_those_of_the_files(page, study):
    for grid in ("focops", "cpo"):
        rewards, costs = ends(study / grid, "return_mean"), ends(study / grid, "discounted_cost_mean/speed")
        assert cell(page, "training", grid, "seeds") == len(rewards)
        assert cell(page, "training", grid, "reward") == pytest.approx(np.mean(rewards))
        assert cell(page, "training", grid, "cost") == pytest.approx(np.mean(costs))
        assert cell(page, "training", grid, "limit") == LIMIT
        assert cell(page, "robust", grid, "seeds within") == np.mean(np.array(costs) <= LIMIT)
    assert cell(page, "training", "focops", "reward, the paper") == 1953.4


def test_the_curves_are_the_means_of_the_runs_and_the_limit_is_drawn(page, study):
    drawn = page.execute_script(f"{DRAWN}[0].data.find(trace => trace.name === 'cpo')")
    curves = [run.curves["return_mean"][2:] for run in read([study / "cpo"]).runs]
    np.testing.assert_allclose(drawn["y"], np.mean(curves, axis=0), rtol=1e-4)
    shapes: list[dict[str, Any]] = page.execute_script(f"{DRAWN}[1].layout.shapes")
    assert [shape["y0"] for shape in shapes if shape["type"] == "line"] == [LIMIT]


def test_the_scatter_has_one_dot_per_seed(page, study):
    dots = page.execute_script(
        "return document.querySelector('#scatters .js-plotly-plot').data.find(trace => trace.name === 'cpo')"
    )
    np.testing.assert_allclose(dots["x"], ends(study / "cpo", "discounted_cost_mean/speed"))
    np.testing.assert_allclose(dots["y"], ends(study / "cpo", "return_mean"))


def test_a_reader_can_hide_curves(page):
    press(page, "#legend", "cpo")
    assert page.execute_script(PLOTS) == [["focops"]] * 4
    press(page, "#legend", "cpo")
    assert page.execute_script(PLOTS) == [["cpo", "focops"]] * 4
    page.find_element(By.ID, "none").click()
    assert page.execute_script(PLOTS) == [[]] * 4


def test_a_reader_can_switch_the_task_and_the_axis_and_finds_both_again(page):
    assert not page.find_element(By.ID, "sensitivity").is_displayed()  # nothing varies there
    press(page, "#tasks", "PointCircle-v0")
    Select(page.find_element(By.ID, "x-axis")).select_by_value("time")
    page.refresh()
    assert len(page.execute_script(PLOTS)[0]) == 6
    assert page.execute_script(f"{DRAWN}[0].layout.xaxis.title.text") == "wall-clock seconds"
    heat, share = page.execute_script(
        "return [...document.querySelectorAll('#heatmaps .js-plotly-plot')].map(plot => plot.data[0])"
    )
    assert (heat["x"], heat["y"]) == (["1", "2", "3"], ["1", "2"])
    white = share["colorscale"][1][0]  # where the cost is its limit
    assert share["zmin"] + white * (share["zmax"] - share["zmin"]) == pytest.approx(1.0)
    assert share["zmin"] >= 0
    visible = [t for t in page.find_elements(By.CSS_SELECTOR, "#training tbody tr") if t.is_displayed()]
    assert len(visible) == 6
    assert page.get_log("browser") == []


def test_a_reader_can_zoom(page):
    before = page.execute_script(RANGE)
    plot = page.find_element(By.CSS_SELECTOR, "#curves .nsewdrag")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    ActionChains(page).move_to_element_with_offset(plot, -100, 0).click_and_hold().move_by_offset(
        150, 5
    ).release().perform()
    WebDriverWait(page, 5).until(lambda _: page.execute_script(RANGE) != before)
    low, high = page.execute_script(RANGE)
    assert before[0] < low < high < before[1]


def test_it_fits_a_narrow_screen(page):
    with narrow(page, 420):
        page.refresh()
        assert page.execute_script("return document.documentElement.scrollWidth") == 420


def test_the_limit_of_the_scatter_is_named_where_there_is_room(browser, tmp_path):
    """All costs are below it: it is at the right edge."""
    make_grid(tmp_path, cost=10.0, task="PointCircle-v0")
    report.write_page(report.Study(read([tmp_path])), tmp_path / "report.html", "x")
    with narrow(browser, 420):
        browser.get((tmp_path / "report.html").as_uri())
        name, svg = (
            browser.execute_script(f"return document.querySelector('#scatters {part}').getBoundingClientRect().right")
            for part in (".annotation-text", ".main-svg")
        )
        assert name <= svg


def test_the_legend_shows_the_symbols_of_the_dots(page):
    drawn = page.execute_script(
        "return [...document.querySelectorAll('#legend path')].map(path => path.getBoundingClientRect().width)"
    )
    assert len(drawn) == 2
    assert all(width > 5 for width in drawn)


def test_the_page_of_a_running_study_refreshes_itself(browser, study):
    file = study / "watched.html"
    report.write_page(report.Study(read([study / "focops"])), file, "first", refresh_s=1.0)
    browser.get(file.as_uri())
    note = "return document.getElementById('refreshing')?.innerText ?? ''"  # in one step: the page may just be loading
    WebDriverWait(browser, 60).until(lambda driver: "refreshes" in driver.execute_script(note))
    report.write_page(report.Study(read([study / "focops"])), file, "second")
    WebDriverWait(browser, 60).until(lambda driver: driver.title == "second")


def test_a_page_as_large_as_table_1_is_below_10_megabytes(tmp_path):
    for task in range(8):
        for algorithm in ("focops", "cpo", "ppo_lagrangian", "trpo_lagrangian"):
            # curves have at most 200 points, and seeds beyond the second only add dots
            base = tmp_path / f"{task}-{algorithm}"
            make_grid(base, seeds=2, task=f"Task{task}-v0", algorithm=algorithm, iterations=210)
    assert len(report.page(report.Study(read([tmp_path])), "Table 1").encode()) < 10e6
