"""Take the pictures of docs/site.md: python tests/screenshots.py results/site/index.html docs/site."""

import argparse
import io
from pathlib import Path

from browser import find_browser
from PIL import Image
from playwright.sync_api import sync_playwright

WIDE, PHONE = {"width": 1000, "height": 860}, {"width": 360, "height": 740}
RANKING = "#view=compile&machine=h100&workload=resnet50/float16&size=64"
STATES = {
    "ranking": (RANKING, WIDE, "light"),
    "compare": ("#view=compare&machine=h200&workload=softmax/float16&metric=device&beside=h100", WIDE, "light"),
    "claims": ("#view=claims&claim=one-kernel-latency", WIDE, "light"),
    "phone": (RANKING, PHONE, "dark"),
}
# Pixels of a picture for one of the page, so that it is sharp.
SCALE = 1.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="the page")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        for name, (state, size, scheme) in STATES.items():
            page = browser.new_page(viewport=size, color_scheme=scheme, device_scale_factor=SCALE)
            page.goto(arguments.page.resolve().as_uri() + state)
            page.locator("section:not([hidden]) .chart svg").last.wait_for()
            page.evaluate("scrollTo(0, 0)")
            picture = Image.open(io.BytesIO(page.screenshot()))
            picture.save(arguments.folder / f"{name}.webp", quality=80, method=6)


if __name__ == "__main__":
    main()
