"""Fuzzed calls of an agent on two neighbouring streams with equal releases: every byte is equal."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import dpi
from dpi.agents.server import make_server
from dpi.agents.tools import Tools
from dpi.store.ledger_session import stored_accounts
from dpi.verification import verify
from equal_releases import force_equal_releases
from strategies import few

pytest.importorskip("mcp", reason="needs mcp (the extra mcp)")

SLOTS = 12
PAGES = dpi.Categories(["home", "search"], other="elsewhere")
PAIRS = dpi.Product(land=dpi.Categories(["DE", "FR"], other=None), age=dpi.Bins([18, 65]))
CALLS = few(600, 100_000)
STREAMS = [None, "visits", "pairs", "nobody", "", 7]
QUESTIONS = [
    "top 2", "top 0", "top x", "total", "count", "count home", "probability home", "probability elsewhere", "mean",
    "probability 'home", "sum", "median", "quantile 0.5", "range 0 20", "spread", "correlation land age", "why", "",
    "reach", "retention 7 first", "stickiness 8", "probability land=DE age=20", "count land=FR age=70",
    "probability nowhere", "top 99999999999", 3, None,
]  # fmt: skip
VALUES = ["home", "search", "elsewhere", "land=DE age=20", "nowhere", "", "a 'b", "\0", 5]
WEIGHTS = [200, 100, 100, 100, 100, 100, 100, 2]
"""How often each tool is called: `verify` takes long, and has no arguments."""
TIMES = ["2026-01-01", "2026-01-01T05:30", "2026-01-01T05:30Z", "2025-01-01", "9999-12-31T23:59", "soon", "newest", ""]


@pytest.fixture
def neighbours(tmp_path, monkeypatch):
    """Two stores, with and without one user who is in every slot; releases and certificates are equal."""
    force_equal_releases(monkeypatch)
    stores = []
    for name in ("without", "with"):
        store = dpi.open_store(tmp_path / f"{name}.db")
        options = {"epsilon": 1, "slot": "1h", "start": "2026-01-01", "store": store}
        visits = dpi.Stream(domain=PAGES, name="visits", budget=dpi.Ledger(per_slot="0.01"), **options)
        pairs = dpi.Stream(domain=PAIRS, name="pairs", budget=dpi.Ledger(per_slot="0.01"), **options)
        for slot in range(SLOTS):
            users = [f"user {number}" for number in range(20 + slot)] + ["eve"] * (300 if name == "with" else 0)
            size = len(users)
            visits.release(users, (["home", "search"] * size)[:size])
            pairs.release(users, {"land": (["DE", "FR", "FR"] * size)[:size], "age": list(range(size))})
        stores.append(store)
    first, second = ([r.to_json() for name in ("visits", "pairs") for r in dpi.open(s, name)] for s in stores)
    assert first == second
    assert len(first) == 2 * SLOTS
    yield stores
    for store in stores:
        store.close()


def make_calls(number, first):
    """Calls with arguments that are right, wrong, or of the wrong kind."""
    draw = random.Random(5)
    places = [None, *TIMES, first, first + 3, str(first + 5), first + SLOTS - 1, first + SLOTS, -1, 10**20, 1.5, True]

    def place():
        return draw.choice(places)

    for _ in range(number):
        match draw.choices(["ask", "series", "movers", "compare", "streams", "promise", "none", "verify"], WEIGHTS)[0]:
            case "ask":
                given = {"question": draw.choice(QUESTIONS), "slot": place(), "first": place(), "end": place(),
                         "part": draw.choice([None, "land", "age", "no"]),
                         "where": draw.choice([None, [], ["age=20"], ["land=DE"], ["x"], "age=20"])}  # fmt: skip
                tool, given = (
                    "ask",
                    {key: value for key, value in given.items() if draw.random() < 0.5}
                    | {"question": given["question"]},
                )
            case "series":
                values = [draw.choice(VALUES) for _ in range(draw.randrange(4))]
                tool, given = "series", {"values": values, "first": place(), "end": place()}
            case "movers":
                tool, given = "movers", {"slot": place(), "before": place(), "k": draw.choice([1, 3, 0, -1, "2"])}
            case "compare":
                names = ("first", "end", "before_first", "before_end")
                tool, given = "compare", {name: place() for name in names}
            case tool:
                given = {}
        yield tool, given | ({"stream": draw.choice(STREAMS)} if tool not in ("streams", "verify", "none") else {})


def answers(tools, calls):
    """The bytes of every answer, as they go over the wire."""
    server = make_server(tools)

    async def ask():
        for tool, given in calls:
            try:
                said = await server.call_tool(tool, given)
            except Exception as error:  # a refusal is an answer, too
                yield f"{type(error).__name__}: {error}".encode()
            else:
                yield repr(said).encode()

    async def collect():
        return [each async for each in ask()]

    with ThreadPoolExecutor() as beside:  # a test in a browser leaves a loop running in this thread
        return beside.submit(asyncio.run, collect()).result()


def served(store, kind=Tools):
    """The tools on a store itself: what an export has not, they could still read here."""
    return kind(dpi.open(store, "visits"), lambda: verify(store))


def test_no_call_tells_whether_a_user_was_there(neighbours):
    """On the stores themselves, whose accounts and keys differ: all answers are equal, and many of them are answers."""
    first = dpi.open(neighbours[0], "visits").extent[1]
    calls = list(make_calls(CALLS, first))
    one, other = (answers(served(store), calls) for store in neighbours)
    assert one == other
    refused = [each for each in one if b"Error" in each[:40]]
    assert len(calls) == CALLS
    assert len(one) / 5 < len(refused) < len(one) * 9 / 10
    assert not [each for each in refused if b"fault" in each or each.startswith(b"UnexpectedToolError")]


class Leaky(Tools):
    """Tells how many accounts there are."""

    def promise(self, stream: str | None = None) -> dict[str, object]:
        """Say too much."""
        store = self._releases.store
        return {"accounts": sum(stored_accounts(store, ledger).holders(0, 0)[0] for ledger in store.ledgers())}


def test_a_leak_is_found(neighbours):
    """The test above can fail."""
    calls = list(make_calls(60, 0))
    one, other = (answers(served(store, Leaky), calls) for store in neighbours)
    assert one != other
