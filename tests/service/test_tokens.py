"""Tokens and roles: every role on every route, what opens something, and that all else is compared as long."""

import hmac
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dpi.errors import OptionError, StateError
from dpi.service._routes import ENDPOINTS
from dpi.service.tokens import ROLES, Tokens
from serving import FIRST, running

PLACES = {"stream": "visits", "slot": str(FIRST), "producer": "p", "question": "total", "digest": "none"}
ALLOWED = {
    "anybody": {"GET /v1/health", "GET /v1/ready", "GET /v1/openapi.json"},
    "everybody": {
        "GET /v1/streams", "GET /v1/streams/{stream}", "GET /v1/domains/{digest}", "GET /v1/chain", "GET /v1/export",
        "GET /v1/streams/{stream}/budget",
    },
    "admin": {"POST /v1/streams", "PUT /v1/streams/{stream}", "DELETE /v1/streams/{stream}"},
    "operator": {"GET /v1/metrics"},
    "overseer": {"GET /v1/acts"},
    "curator": {
        "POST /v1/streams/{stream}/events", "POST /v1/streams/{stream}/events/check",
        "GET /v1/streams/{stream}/producers/{producer}", "GET /v1/operations",
    },
    "reader": {
        "GET /v1/streams/{stream}/releases", "GET /v1/streams/{stream}/releases/{slot}",
        "GET /v1/streams/{stream}/answers/{question}",
        "GET /v1/streams/{stream}/follow", "GET /v1/streams/{stream}/picture", "GET /v1/streams/{stream}/series",
        "GET /v1/streams/{stream}/alerts",
    },
}  # fmt: skip
"""What is promised, written down apart from the program."""
MAY = {
    "admin": ALLOWED["everybody"] | ALLOWED["admin"] | ALLOWED["reader"] | ALLOWED["operator"] | ALLOWED["overseer"],
    "curator": ALLOWED["everybody"] | ALLOWED["curator"] | ALLOWED["reader"] | ALLOWED["operator"],
    "analyst": ALLOWED["everybody"] | ALLOWED["reader"],
    "auditor": ALLOWED["everybody"] | ALLOWED["overseer"],
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with one release."""
    with running(tmp_path_factory.mktemp("roles")) as found:
        found.set(11)
        yield found


def status(service, endpoint, headers):
    """What a route answers to a request that says nothing else."""
    path = re.sub(r"\{(\w+)\}", lambda name: PLACES[name[1]], endpoint.path)
    with service.client().stream(endpoint.method, path, headers=headers) as answer:
        return answer.status_code


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_every_role_on_every_route(service, endpoint):
    """A role opens just what is promised; without a token, with one that is wrong or of another service, nothing is."""
    name = f"{endpoint.method} {endpoint.path}"
    for role in ROLES:
        found = status(service, endpoint, {"authorization": f"Bearer {service.tokens[role]}"})
        assert found not in (401, 500), role
        assert (found != 403) == (name in ALLOWED["anybody"] | MAY[role]), role
    good = service.tokens["admin"]
    for text in ("", "Bearer", "Bearer x", f"Basic {good}", f"Bearer {good}x", f"Bearer {good[:-1]}", "Bearer dpi__"):
        found = status(service, endpoint, {"authorization": text} if text else {})
        assert (found == 401) == (name not in ALLOWED["anybody"]), text


def test_tokens_end(service):
    """One that has expired or was revoked is refused from the next request on; a foreign one always."""
    tokens, client = service.service.tokens, service.client()

    def found(token):
        return client.get("/v1/streams", headers={"authorization": f"Bearer {token}"}).status_code

    now = datetime.now(UTC)
    assert found(tokens.create("analyst", expires=now - timedelta(seconds=1))) == 401
    lasting = tokens.create("analyst", expires=now + timedelta(days=1))
    assert found(lasting) == 200
    tokens.revoke(lasting.split("_")[1])
    assert found(lasting) == 401
    foreign = Tokens(service.service.tokens.path.with_name("others.json"))
    assert found(foreign.create("admin")) == 401


def test_the_file_keeps_no_secret(tmp_path):
    """Tokens are kept as hashes, for their owner alone; another process hears of a change, and none is lost."""
    path = tmp_path / "tokens.json"
    one, other = Tokens(path), Tokens(path)
    made = [(one, other)[number % 2].create("analyst", name=f"n{number}") for number in range(6)]
    text = path.read_text()
    assert not any(token.split("_", 2)[2] in text for token in made)
    assert path.stat().st_mode & 0o077 == 0
    assert [entry.name for entry in one.entries()] == [f"n{number}" for number in range(6)]
    assert all(one.check(token) and other.check(token) for token in made)
    assert one.check("dpi_" + "0" * 16 + "_" + made[0].split("_", 2)[2]) is None
    with pytest.raises(OptionError, match="`role` must be one of admin"):
        one.create("king")
    with pytest.raises(OptionError, match="must name its zone"):
        one.create("admin", expires=datetime(2030, 1, 1))
    with pytest.raises(OptionError, match="no token"):
        one.revoke("x")
    path.write_text("{}")
    with pytest.raises(StateError, match="damaged"):
        one.check(made[0])


def test_the_reference_has_the_table():
    """docs/http.md says of every route who may use it."""
    text = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
    rows = re.findall(r"^\| `(\w+) (/v1\S*)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|", text, re.MULTILINE)
    told = {f"{method} {path}": marks for method, path, *marks in rows}
    assert told.keys() == {f"{each.method} {each.path}" for each in ENDPOINTS}
    for name, marks in told.items():
        assert [mark == "yes" for mark in marks] == [name in ALLOWED["anybody"] | MAY[role] for role in ROLES], name


@pytest.fixture
def tokens(tmp_path):
    """The tokens of a file of their own."""
    return Tokens(tmp_path / "tokens.json")


def test_only_the_whole_token_opens_something(tokens):
    """Not another secret, none at all, that of another token, nor any text about an id that there is not."""
    token, other = tokens.create("analyst"), tokens.create("curator")
    prefix, identity, secret = token.split("_", 2)
    assert tokens.check(token).role == "analyst"
    for text in (
        "", "dpi_", "dpi__", f"dpi_{identity}", f"dpi_{identity}_", f"dpi_{identity}_{other.split('_', 2)[2]}",
        f"dpi_{identity}_{secret}x", f"dpi_{identity}_{secret[:-1]}", f"dpi_{'0' * 16}_{secret}", "dpi_0_", "dpi_0",
        f"{identity}_{secret}", f"{prefix}_{prefix}_{identity}_{secret}", token.upper(),
        f"dpi_{identity}_{tokens.check(token).hash}",
    ):  # fmt: skip
        assert tokens.check(text) is None, text


def test_an_empty_secret_opens_nothing_even_where_its_hash_is_what_is_compared(tokens):
    """A text without an entry is compared with the hash of nothing, which the empty secret has."""
    tokens.create("admin")
    assert tokens.check("dpi_unknown_") is None
    assert tokens.check("") is None


def test_every_text_is_compared_once_and_in_constant_time(tokens, monkeypatch):
    """With the hash of its entry or, if it has none, with another: how long a refusal takes tells nothing of ids."""
    token, compared = tokens.create("analyst"), []
    compare = hmac.compare_digest

    def noting(left, right):
        compared.append((left, right))
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    kept = json.loads(tokens.path.read_text())["tokens"][0]["hash"]
    identity = token.split("_", 2)[1]
    for text, against_own in (
        (token, True), (f"dpi_{identity}_guess", True), (f"dpi_{identity}_", True), ("dpi_unknown_guess", False),
        ("dpi_unknown_", False), ("", False), ("guess", False),
    ):  # fmt: skip
        compared.clear()
        tokens.check(text)
        assert len(compared) == 1
        assert {len(each) for each in compared[0]} == {64}
        assert (kept in compared[0]) == against_own


def test_an_end_and_a_revocation_are_heeded(tokens):
    """From that moment on, and not before."""
    end = datetime(2026, 1, 1, tzinfo=UTC)
    token = tokens.create("auditor", expires=end)
    assert tokens.check(token, end - timedelta(microseconds=1)) is not None
    assert tokens.check(token, end) is None
    assert tokens.check(token) is None
    lasting = tokens.create("auditor")
    tokens.revoke(tokens.check(lasting).id)
    assert tokens.check(lasting) is None
