"""A real browser for tests of the page: Chromium, by Playwright, or a sentence that says how to get it."""

import os
import shutil

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def chromium():
    """One browser for the tests of a file: the event loop that it runs in would be in the way of other files' own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no browser: pip install -e '.[page]'")
    path = os.environ.get("DPI_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium: install it (Debian: apt install chromium), or name it in DPI_CHROMIUM")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Views:
    """Pages of a service, and what was wrong in any of them."""

    def __init__(self, browser):
        self.browser, self.contexts, self.said, self.asked = browser, [], [], []

    def __call__(self, address, *, width=1280, height=900, scheme="light", allowed=()):
        """Another page; what its console says is noted, but for what is allowed."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.said.append(str(error)))

        def heard(message):
            if message.type in ("error", "warning") and not any(word in message.text for word in allowed):
                self.said.append(message.text)

        page.on("console", heard)
        page.goto(address)
        return page

    def close(self):
        """Hold that nothing was wrong, and that nobody else was asked for anything."""
        for context in self.contexts:
            context.close()
        assert not self.said
        assert all(url.startswith(("http://127.0.0.1:", "blob:http://127.0.0.1:")) for url in self.asked)


@pytest.fixture
def view(chromium):
    """Opens pages for one test."""
    views = Views(chromium)
    yield views
    views.close()


@pytest.fixture(scope="module")
def views(chromium):
    """Opens pages for several tests."""
    views = Views(chromium)
    yield views
    views.close()
