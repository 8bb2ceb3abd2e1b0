"""Chromium without a window, for tests of pages."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

_CHROMIUM, _DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (_CHROMIUM and _DRIVER), reason="no Chromium here: apt-get install chromium chromium-driver"
)
_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1400,1000"
)


@contextmanager
def chromium(folder: Path) -> Iterator[webdriver.Chrome]:
    """One that keeps its files in `folder`."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(_CHROMIUM)
    for flag in [*_FLAGS.split(), f"--user-data-dir={folder}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(_DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


def forget(browser: webdriver.Chrome) -> None:
    """What was complained of and asked for until now."""
    for kind in ("browser", "performance"):
        browser.get_log(kind)


def requested(browser: webdriver.Chrome) -> set[str]:
    """The addresses that were asked for since the last look."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}


@contextmanager
def narrow(browser: webdriver.Chrome, width: int = 420) -> Iterator[None]:
    """A telephone's screen."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
