"""The documentation site builds without a warning, its links lead somewhere, and a browser shows it whole."""

import functools
import importlib.util
import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import nbformat
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser import chromium, forget, narrow, needs_chromium, requested

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SHOWN = (
    "",
    "docs/start/",
    "docs/equations/",
    "docs/metrics/",
    "docs/api/",
    "docs/notebooks/first-agent/",
    "results/learning/",
)
"""Pages of each kind: text, commands, formulas, tables, the reference, a notebook, figures."""


class Links(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.targets |= {given[name] for name in ("href", "src") if name in given}


@pytest.fixture(scope="module")
def make_site() -> ModuleType:
    """docs/make_site.py, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("make_site", DOCS / "make_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(make_site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build") / "docs"
    make_site.build(folder)
    return folder / "site"


def test_the_output_of_a_cell_is_shown_without_a_terminals_colours(make_site: ModuleType, tmp_path: Path) -> None:
    coloured = nbformat.v4.new_output(
        "display_data", {"text/plain": "\x1b[1;32msatisfied\x1b[0m\n", "text/html": "<b>"}
    )
    cell = nbformat.v4.new_code_cell("run()", outputs=[coloured])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "one.ipynb")
    assert make_site._page(tmp_path / "one.ipynb") == "```python\nrun()\n```\n\n```text\nsatisfied\n```\n"


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 30
    for page, links in pages.items():
        for target in links.targets:
            path, _, anchor = unquote(target).partition("#")
            if "://" in path or path.startswith(("mailto:", "data:")):
                continue
            found = (page.parent / path).resolve() if path else page
            found = found / "index.html" if found.is_dir() else found
            assert found.exists(), f"{page.relative_to(site)}: {target}"
            assert not anchor or found not in pages or anchor in pages[found].anchors, f"{page}: {target}"


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text())
        assert [each for each in loaded if "zensical.org" not in each] == [], page


def test_every_page_is_in_the_navigation(site: Path) -> None:
    listed = set(re.findall(r'"([\w/.-]+\.md)"', (ROOT / "zensical.toml").read_text()))
    pages = {path.relative_to(site.parent / "pages").as_posix() for path in (site.parent / "pages").rglob("*.md")}
    assert listed == pages


def test_formulas_are_drawn_by_the_browser(site: Path) -> None:
    text = (site / "docs/equations/index.html").read_text()
    assert text.count("<math") == (DOCS / "equations.md").read_text().count("```math")
    assert "merror" not in text


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where a server on this machine has the site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@needs_chromium
@pytest.mark.parametrize("page", SHOWN)
def test_a_browser_shows_a_page_with_its_pictures_and_asks_nobody_else(page: str, browser, address) -> None:
    browser.get("about:blank")
    forget(browser)
    browser.get(address + page)
    assert browser.find_element(By.TAG_NAME, "h1").is_displayed()
    missing = "return [...document.images].filter(each => !(each.complete && each.naturalWidth)).map(each => each.src)"
    assert browser.execute_script(missing) == []
    assert browser.get_log("browser") == []
    assert {each for each in requested(browser) if not each.startswith((address, "data:", "blob:"))} == set()


@needs_chromium
@pytest.mark.parametrize("page", SHOWN)
def test_a_page_fits_a_telephone(page: str, browser, address) -> None:
    with narrow(browser, 420):
        browser.get(address + page)
        assert browser.execute_script("return document.documentElement.scrollWidth") == 420


@needs_chromium
def test_formulas_stand_in_the_page_whole(browser, address) -> None:
    browser.get(address + "docs/equations/")
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('.formula')].map(each => [each.scrollWidth - each.clientWidth,"
        " each.querySelector('math').getBoundingClientRect().height])"
    )
    assert len(sizes) > 20
    assert all(hidden == 0 and height > 15 for hidden, height in sizes)


@needs_chromium
def test_a_reader_finds_a_page_by_a_word(browser, address) -> None:
    browser.get(address)
    keys, wait = ActionChains(browser), WebDriverWait(browser, 10)
    keys.key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
    box = "return [...document.querySelectorAll('*')].some(each => each.shadowRoot?.activeElement?.tagName === 'INPUT')"
    wait.until(lambda _: browser.execute_script(box))
    keys.send_keys("osmesa").perform()
    wait.until(lambda _: "Without a screen" in browser.find_element(By.TAG_NAME, "body").text)
