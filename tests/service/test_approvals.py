"""What raises the most that a user can lose is opened when two administrators have asked for it."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from dpi.errors import OptionError
from dpi.service import _approvals
from dpi.service.config import Config
from dpi.service.service import Service
from serving import BEGIN, running, settings

OTHER = {"name": "other", "domain": ["a"], "epsilon": 2, "slot": "1h", "from": BEGIN, "separate": True}
SERIES = OTHER | {"name": "series", "converging": "zeta:2"}


def ask(found, who, request):
    """The status of an answer to a request for a stream."""
    return found.client(who).post("/v1/streams", json=request).status_code


def names(found):
    """All streams."""
    return set(found.service.closing.streams)


@pytest.mark.parametrize("request_", [OTHER, SERIES], ids=["separate", "series"])
def test_another_administrator_sends_the_same(tmp_path, request_):
    """One alone opens nothing, however often; whoever opens states all of it, and the log of acts names both."""
    with running(tmp_path) as found:
        for _ in range(2):
            told = found.client("admin").post("/v1/streams", json=request_)
            assert told.status_code == 403
            assert "waits for another administrator" in told.json()["detail"]
        for changed in ({"epsilon": 3}, {"domain": ["a", "b"]}, {"slot": "2h"}):
            assert ask(found, "another admin", request_ | changed) == 403
        assert names(found) == {"visits"}
        assert ask(found, "another admin", dict(reversed(request_.items()))) == 201
        assert names(found) == {"visits", request_["name"]}
        *_, act = found.client("auditor").get("/v1/acts").json()["acts"]
        ids = [entry.id for entry in found.service.tokens.entries() if entry.role == "admin"]
        assert (act["act"], act["by"], act["about"]["proposed"]) == (
            "stream opened",
            *(f"admin {i}" for i in ids[::-1]),
        )
        assert ask(found, "admin", request_) == 409


def test_what_raises_nothing_needs_one(tmp_path):
    """Streams that share the ε, their changes and their end; a larger ε or a shorter period changes for nobody."""
    shared = {"name": "shared", "domain": ["a"], "epsilon": 1, "slot": "1h", "from": BEGIN, "per-slot": "0.1"}
    with running(tmp_path) as found:
        assert ask(found, "admin", shared) == 201
        path, same = "/v1/streams/shared", {key: value for key, value in shared.items() if key != "name"}
        admin = found.client("admin")
        assert admin.put(path, json=same | {"domain": ["b"]}).status_code == 200
        for more in ({"epsilon": 2}, {"period": 24}, {"separate": True}):
            for who in ("admin", "another admin", "admin"):
                assert found.client(who).put(path, json=same | more).status_code == 422
        assert admin.delete(path).status_code == 200
        assert not [act for act in found.service.acts.entries() if act["act"] == _approvals.PROPOSED]


def test_two_tokens_of_one_person_are_one(tmp_path):
    """By the name that tokens were given; and a proposal by a token that opens nothing any more is none."""
    with running(tmp_path) as found:
        service = found.service
        for who, name in (("ada", "ada"), ("ada again", "ada"), ("bob", "bob")):
            found.tokens[who] = service.tokens.create("admin", name=name)
        assert [ask(found, who, OTHER) for who in ("ada", "ada again")] == [403, 403]
        for who in ("ada", "ada again"):
            service.tokens.revoke(found.tokens[who].split("_", 2)[1])
        assert ask(found, "bob", OTHER) == 403
        assert ask(found, "admin", OTHER) == 201


def test_a_proposal_holds_over_a_restart_and_for_a_week(tmp_path, monkeypatch):
    """It stands in the log of acts; after its days it is none."""
    with running(tmp_path) as found:
        assert ask(found, "admin", OTHER) == 403
        admin = found.tokens["admin"]
    with running(tmp_path) as found:
        late = datetime.now(UTC) + timedelta(days=_approvals.DAYS, minutes=1)

        class Later(datetime):
            @classmethod
            def now(cls, tz=None):
                return late

        with monkeypatch.context() as patched:
            patched.setattr(_approvals, "datetime", Later)
            assert found.service.approvals.find(OTHER, "admin 1") is None
        assert found.service.approvals.find(OTHER, "admin 1") is not None
        found.tokens["admin"] = admin
        assert ask(found, "admin", OTHER) == 403
        assert ask(found, "another admin", OTHER) == 201


def test_a_configuration_raises_nothing_after_the_first_release(tmp_path):
    """Before it all streams are opened; then one with its own ε is refused until it was opened by HTTP."""
    both = (settings(), settings(name="apart", separate=True))
    third = settings(name="third", separate=True, epsilon="1")
    with running(tmp_path, *both) as found:
        assert names(found) == {"visits", "apart"}
    with running(tmp_path, *both, third) as found:
        assert names(found) == {"visits", "apart", "third"}
        found.set(10)
    fourth = settings(name="fourth", separate=True)
    config = Config(
        store=str(tmp_path / "visits.db"),
        tokens=tmp_path / "tokens.json",
        streams={"fourth": fourth, "visits": both[0]},
    )
    with pytest.raises(OptionError, match=r"\[streams.fourth\] has an ε of its own"):
        Service(config)
    request = {
        "name": "fourth",
        "domain": ["home", "search"],
        "epsilon": 1,
        "slot": "10s",
        "from": BEGIN,
        "separate": True,
    }
    with running(tmp_path, both[0]) as found:
        assert [ask(found, who, request) for who in ("admin", "another admin")] == [403, 201]
    with running(tmp_path, *both, third, fourth) as found:
        assert len(names(found)) == 4
        text = json.dumps(list(found.service.acts.entries()))
        assert not any(token.split("_", 2)[2] in text for token in found.tokens.values())
