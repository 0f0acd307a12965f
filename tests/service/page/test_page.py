"""The page in a real browser, on a shop whose slots a test lets pass."""

import contextlib
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import polars as pl
import pytest

import dpi
from dpi.budget.odds import odds
from dpi.certificates.signature import Signer
from service.conftest import free_port
from service.page.shop import shop
from serving import FIRST, MOMENT, SECOND, SetClock, running, settings

HOURS = 26
CROWD = range(23, 25)


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A shop with some slots, and a crowd among the last."""
    with shop(tmp_path_factory.mktemp("shop"), delay="10ms") as found:
        yield found.play(HOURS, CROWD)


@pytest.fixture(scope="module")
def desk(there, views):
    """A page on a desk, which several tests use one after the other."""
    return ready(views(at(there)))


def newest(there):
    """The last release."""
    with there.found.connect("analyst") as service:
        return service.stream("visits").newest


def at(there, role="analyst", state=""):
    """The address that lets somebody in."""
    return f"{there.found.url}/#token={there.found.tokens[role]}{state}"


def ready(page):
    """Wait until the page has drawn."""
    page.wait_for_selector("body[data-ready] #bars tbody tr")
    page.wait_for_function("() => document.getElementById('live-text').textContent === 'live'")
    page.wait_for_function("() => document.getElementById('badge').textContent !== 'certificates'")
    return page


def drawn(page, canvas):
    """How many different colours a canvas shows."""
    return page.evaluate(
        """id => { const c = document.getElementById(id);
        const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);
        return new Set(d).size }""",
        canvas,
    )


@pytest.mark.parametrize("place", ["desk", "phone"])
def test_what_is_released_is_drawn(there, view, place, request):
    """On a desk and on a phone: bars with the release's own intervals, a map, lines, alerts; nothing is cut off."""
    page = request.getfixturevalue("desk") if place == "desk" else ready(view(at(there), width=390, height=844))
    assert "token" not in page.url
    release = newest(there)
    lower, upper = release.interval(0.95)
    first = page.locator("#bars tbody tr").first
    code = int(first.get_attribute("data-code"))
    assert code == release.pdf[:-1].argmax()
    assert first.locator(".figure").text_content() == f"{100 * release.pdf[code]:.1f} %"
    whisker = first.locator(".track b").evaluate("b => [parseFloat(b.style.left), parseFloat(b.style.width)]")
    end = max(upper)
    assert whisker == pytest.approx([100 * lower[code] / end, 100 * (upper[code] - lower[code]) / end], abs=0.01)
    assert drawn(page, "heat") > 50
    assert drawn(page, "lines") > 20
    assert page.locator(".alert strong", has_text="offer").count() >= 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "ε = 1 per user, for ever." in page.locator("#budget-words").text_content()
    assert odds(1, epochs=False) in page.locator("#promise-words").text_content()
    assert page.locator("#odds-words").text_content() == (
        "After all releases, for ever, whatever else the reader knows: that I was ever here, with 26.9 % at least "
        "and 73.1 % at most (upper bar); that I did A instead of B here, with 11.9 % at least and 88.1 % "
        "at most (lower bar)."
    )


def test_people_are_drawn_where_the_stream_can_tell_them(tmp_path, view, desk):
    """Four panels as slots come, and how users go on once that is measured; a stream with a price per slot has none."""
    assert desk.locator("#people").is_hidden()
    with running(tmp_path, settings(domain=dpi.Categories(["a", "b"]), epsilon="100"), delay="10ms") as found:

        def play(hours):
            for hour in hours:
                users = [f"u{user}" for user in range(300)] + [f"{hour} {user}" for user in range(100)]
                found.clock.now = MOMENT + (10 * hour + 5) * SECOND
                found.send([(user, 10 * hour + 1, "ab"[len(user) % 2]) for user in users], hour)
                found.set(10 * hour + 11)

        play(range(1))
        page = view(f"{found.url}/#token={found.tokens['analyst']}")
        page.wait_for_selector("body[data-ready] #people:not([hidden])")
        assert "Not enough measurements yet for retention" in page.locator("#people-more").text_content()
        play(range(1, 16))
        page.get_by_text("active users over distinct users of the last 7 slots").wait_for()  # told once it is known
        assert page.locator("#people-more tbody tr").count() >= 4
        for name in ("users", "newcomers", "returning", "reach"):
            assert drawn(page, f"people-{name}") > 5
        with page.expect_download() as taken:
            page.get_by_role("button", name="People as CSV").click()
        table = pl.read_csv(taken.value.path())
        assert table.columns[2:5] == ["users", "lower_users", "upper_users"]
        assert table["reach"].to_list()[-1] == pytest.approx(300 + 1600, rel=0.05)


def test_an_arrow_only_where_the_interval_leaves_no_doubt(there, desk):
    """What moved is said with the interval of the difference; an arrow stands where it does not cover zero."""
    page = desk
    page.evaluate("slot => { location.hash = `#stream=visits&slot=${slot}` }", FIRST + CROWD[0])
    found = there.found.client("analyst").get(
        "/v1/streams/visits/picture", params={"slot": FIRST + CROWD[0], "beside": FIRST + CROWD[0] - 1}
    ).json()  # fmt: skip
    assert found["rows"][0]["label"] == "offer"
    assert found["rows"][0]["sure"]
    page.wait_for_function("() => document.querySelector('#now-title').textContent !== 'Now'")
    arrows = page.locator("#movers tbody tr").evaluate_all(
        "rows => rows.map(row => [row.querySelector('th').textContent, /[▲▼]/.test(row.textContent)])"
    )
    assert arrows == [[row["label"], row["sure"]] for row in found["rows"]]
    page.click("#newest")
    page.wait_for_function("() => document.querySelector('#now-title').textContent === 'Now'")


def test_a_release_is_drawn_without_a_reload(there, desk):
    """A slot that closes is on the page: bars, columns, chain; the page was not loaded again."""
    page = desk
    page.evaluate("window.same = true")
    before = page.locator("#tile-chain-more").text_content()
    there.hour()
    start = newest(there).start_text
    page.wait_for_function("t => document.getElementById('now-lead').textContent.startsWith(t)",
                           arg=start[:19].replace("T", " "))  # fmt: skip
    page.wait_for_function("t => document.getElementById('tile-chain-more').textContent !== t", arg=before)
    assert page.locator("#slot-text").text_content() == start[:19].replace("T", " ")
    assert page.evaluate("window.same")


def test_a_page_goes_on_when_the_service_comes_back(tmp_path, view):
    """The service ends and begins again on its port: the page says so, goes on after its last slot, misses none."""
    clock = SetClock()
    with running(tmp_path, clock=clock, delay="10ms") as found:
        port, token = int(found.url.rpartition(":")[2]), found.tokens["analyst"]
        lost = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_CONNECTION_RESET", "503")
        found.set(21)
        page = ready(view(f"{found.url}/#token={token}", allowed=lost))
        page.evaluate("window.same = true")
    page.wait_for_function("() => document.getElementById('live-text').textContent.startsWith('lost')")
    with running(tmp_path, clock=clock, delay="10ms", port=port) as found:
        found.set(51)
        page.wait_for_function("() => document.getElementById('live-text').textContent === 'live'")
        page.wait_for_function("() => document.getElementById('slot').max === '4'")
        assert page.evaluate("window.same")


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A service that signs its chain, and the fingerprint of its key."""
    folder = tmp_path_factory.mktemp("signed")
    fingerprint = Signer.open(folder / "key.pem").verifier.fingerprint
    with running(folder, sign=folder / "key.pem", delay="10ms") as found:
        found.set(31)
        yield found, fingerprint


def badge(page, fingerprint, word):
    """Have the chain checked with a fingerprint, and wait for what the badge says then."""
    page.click("#badge")
    page.fill("#key", fingerprint)
    page.click("#key-form button[type=submit]")
    page.wait_for_function("w => document.getElementById('badge').textContent.includes(w)", arg=word)
    page.keyboard.press("Escape")


def test_the_badge_says_what_the_browser_found(signed, view):
    """Consistent without a key, verified with the one that the reader knows, and neither with another."""
    found, fingerprint = signed
    page = ready(view(f"{found.url}/#token={found.tokens['analyst']}"))
    assert page.locator("#badge").text_content() == "consistent"
    badge(page, fingerprint, "✓ verified")
    badge(page, hashlib.sha256(b"another").hexdigest(), "another key")
    badge(page, "", "consistent")
    assert "4 entries" in page.locator("#tile-chain-more").text_content()


def test_a_chain_that_was_tampered_with_is_broken_where_it_was(signed, view):
    """One letter of one entry is other than it was: broken at that entry, with and without a key."""
    found, fingerprint = signed
    page = view(f"{found.url}/")

    def tampered(route):
        document = found.client("analyst").get("/v1/chain").json()
        for entry in document["entries"]:
            if entry["entry"] == 2:
                entry["text"] = entry["text"].replace('"adjacency":"all', '"adjacency":"All')
        route.fulfill(json=document)

    page.context.route("**/v1/chain*", tampered)
    page.fill("#token", found.tokens["analyst"])
    page.keyboard.press("Enter")
    ready(page)
    page.wait_for_function("() => document.getElementById('badge').textContent === '✗ broken at entry 2'")
    badge(page, fingerprint, "broken at entry 2")


def test_a_wrong_token_opens_nothing(there, view):
    """The page says so and asks again; with a good one it opens. Neither is in the address."""
    page = view(f"{there.found.url}/#token=dpi_no_no", allowed=("401",))
    page.wait_for_selector("#gate:not([hidden])")
    assert page.locator("#notice").text_content() == "a valid token is needed."
    assert page.evaluate("sessionStorage.getItem('dpi token')") is None
    page.fill("#token", there.found.tokens["analyst"])
    page.keyboard.press("Enter")
    ready(page)
    assert "dpi_" not in page.url
    page.click("#leave")
    page.wait_for_selector("#gate:not([hidden])")


def test_everything_can_be_done_with_keys(there, desk, view):
    """Values are chosen, the slot and the scale changed with the keyboard, and the address says what is looked at."""
    page = desk
    page.locator("#bars .pin").nth(2).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#chips .chip >> nth=0")
    page.wait_for_function("() => document.querySelectorAll('#chips .chip').length === 1")
    assert page.locator("#bars .pin").nth(2).get_attribute("aria-pressed") == "true"
    page.focus("input[name=scale][value=share]")
    page.keyboard.press("ArrowRight")
    page.focus("#slot")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('#now-title').textContent !== 'Now'")
    page.focus("#to")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => location.hash.includes('end=')")
    state = dict(part.split("=") for part in page.url.partition("#")[2].split("&"))
    assert state["scale"] == "log"
    assert int(state["slot"]) == FIRST + there.hours - 4
    page.wait_for_timeout(300)
    again = ready(view(at(there, state="&" + page.url.partition("#")[2])))
    assert again.locator("#chips .chip").text_content() == page.locator("#chips .chip").text_content()
    assert again.locator("input[name=scale][value=log]").is_checked()
    assert again.locator("#now-title").text_content() == page.locator("#now-title").text_content()
    page.evaluate("() => { location.hash = '#stream=visits' }")
    page.wait_for_function("() => document.querySelector('#now-title').textContent === 'Now'")


def test_what_is_taken_away_is_what_is_drawn(there, desk, tmp_path):
    """CSV, Parquet and PNG hold the numbers of the releases; the Python of every view runs and asks for the same."""
    page = desk
    release = newest(there)

    def taken(card, word):
        with page.expect_download() as found:
            page.click(f"#{card}-take button:text-is('{word}')")
        path = tmp_path / f"{card}.{word.lower()}"
        found.value.save_as(path)
        return path

    table = pl.read_csv(taken("now", "CSV"))
    shares = dict(zip(table["code"], table["share"], strict=True))
    assert [shares[code] for code in range(10)] == pytest.approx(release.pdf.tolist(), rel=1e-12)
    frame = pl.read_parquet(taken("time", "Parquet"))
    assert frame["slot"].to_list() == list(range(FIRST, FIRST + there.hours))
    assert taken("time", "PNG").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert taken("now", "PNG").stat().st_size > 2000
    for card in ("now", "changes", "time", "compare", "users", "alerts"):
        page.click(f"#{card}-take button:text-is('Python')")
        code = page.locator("#code").text_content()
        page.click("#code-close")
        assert there.found.tokens["analyst"] not in code
        printed = run(code, there.found.tokens["analyst"])
        assert ("offer" if card == "alerts" else str(release.slot) if card in ("time", "users") else "") in printed
        assert printed or card == "changes"


def run(code, token):
    """What a program prints, run here."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setenv("DPI_TOKEN", token)
        exec(compile(code, "page", "exec"), {})  # noqa: S102 - the page's own text is what is tested
    return said.getvalue()


def test_roles_see_what_is_theirs(there, desk, view):
    """A curator's panel is for curators; an auditor sees the chain and no release."""
    assert desk.locator("#curator").is_hidden()
    page = view(at(there, "auditor"))
    page.wait_for_function("() => document.getElementById('badge').textContent === 'consistent'")
    assert page.locator("#pictures").is_hidden()


@pytest.mark.parametrize("domain", ["ages", "product"])
def test_ordered_and_product_domains_have_their_own_pictures(tmp_path, view, domain):
    """Ages are a density and a fan of quantiles; pages by country a grid with its sides."""
    with shop(tmp_path, domain, delay="10ms") as found:
        found.play(4)
        page = ready(view(at(found)))
        if domain == "ages":
            assert page.locator("#density").is_visible()
            assert drawn(page, "fan") > 10
            page.click("#fan-take button:text-is('Python')")
            assert len(run(page.locator("#code").text_content(), found.found.tokens["analyst"]).splitlines()) == 4
        else:
            release = newest(found)
            cells = page.locator("#grid tbody tr").first.locator("td").all_text_contents()
            assert len(cells) == 4
            assert cells[-1] == f"{100 * release.marginal('page').pdf.max():.1f} %"
        axe(page, runOnly=["color-contrast", "td-headers-attr", "th-has-data-cells", "select-name"])


def axe(page, **options):
    """Hold that axe-core finds nothing against it."""
    sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core: pip install -e '.[page]'")
    found = sync.Axe().run(page, options=options)
    assert found.violations_count == 0, json.dumps(
        [[each["id"], each["nodes"][0]["html"], each["nodes"][0]["any"][:1]] for each in found.response["violations"]]
    )


def test_axe_finds_nothing(there, view):
    """With and without a token, with a dialog open, light and dark."""
    page = view(there.found.url)
    page.wait_for_selector("#gate:not([hidden])")
    axe(page)
    page = ready(view(at(there, "curator"), scheme="dark"))
    assert "Batches kept" in page.locator("#curator-tiles").text_content()
    axe(page)
    page.click("#theme")
    axe(page, runOnly=["color-contrast"])
    page.click("#badge")
    axe(page, runOnly=["color-contrast", "label", "aria-dialog-name"])


def test_the_demonstration_lets_one_in(view, tmp_path):
    """`dpi serve --demo` prints an address that opens the page, also before the first slot; it lives."""
    command = [sys.executable, "-m", "dpi.cli", "serve", "--demo", "--json", "--port", str(free_port())]
    given = os.environ | {"PYTHONPATH": str(Path(dpi.__file__).parents[1]), "PYTHONUNBUFFERED": "1"}
    demo = subprocess.Popen(command, cwd=tmp_path, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = json.loads("".join(iter(demo.stdout.readline, "}\n")) + "}")
        deadline = time.monotonic() + 20
        while True:
            try:
                httpx.get(said["url"]).raise_for_status()
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        page = ready(view(said["page"]))
        assert page.locator("#title").text_content() == "shop"
        assert said["analyst"] not in page.url
        page.close()
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)


def test_files_are_for_anybody_and_load_nothing_else(there):
    """`/` and its files need no token, come with a strict policy, and name no other address; others are 404."""
    client = there.found.client()
    index = client.get("/")
    assert index.headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in index.headers["content-security-policy"]
    assert "<script>" not in index.text
    assert "style=" not in index.text
    names = {*re.findall(r'(?:href|src)="/page/([^"]+)"', index.text)}
    todo = set(names)
    while todo:
        name = todo.pop()
        answer = client.get(f"/page/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-security-policy"] == index.headers["content-security-policy"]
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text), name
        new = {*re.findall(r'from "\./([^"]+)"', answer.text), *re.findall(r'"/page/([^"]+)"', answer.text)} - names
        names, todo = names | new, todo | new
    assert {"main.js", "chain-worker.js", "style.css", "icon.svg"} <= names
    for path in ("/page/", "/page/none.js", "/page/..%2fapp.py", "/page/__init__.py", "/index.html"):
        assert client.get(path).status_code == 404
    assert client.post("/").status_code == 405
