"""Tokens: what opens something, and that everything else is compared just as long."""

import hmac
import json
from datetime import UTC, datetime, timedelta

import pytest

from dpi.service.tokens import Tokens


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
