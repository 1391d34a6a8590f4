"""A browser for the tests of pages: Debian's Chromium, driven by Playwright, which downloads none."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Return the path of a browser, None without one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless browser; without one the test is skipped, or fails where NEEDS_CHROMIUM is set."""
    found = find_browser()
    if found is None:
        if os.environ.get("NEEDS_CHROMIUM"):
            pytest.fail(f"no browser: {', '.join(NAMES)}")
        pytest.skip("no Chromium is installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()
