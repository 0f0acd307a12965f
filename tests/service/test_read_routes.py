"""What the routes do: streams, batches, releases, questions, the chain, and how all of it is described."""

import json
from datetime import UTC, datetime

import pytest

import dpi
from dpi.release.queries import NOT_SURER
from dpi.service._publication import Reading
from dpi.service._routes import ENDPOINTS
from dpi.store import open_store
from dpi.verification import verify
from serving import BEGIN, FIRST, MOMENT, PAGES, SECOND, running, settings

ROWS = [(f"user {number}", 1.0, ("home", "search")[number % 3 == 0]) for number in range(30)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A service whose stream has three releases, of which the first had visitors."""
    with running(tmp_path_factory.mktemp("api")) as found:
        found.clock.now += 5_000_000
        assert found.send(ROWS, 0).status_code == 200
        found.set(31)
        yield found


def get(shop, path, role="analyst", **parameters):
    """An answer, which must be there."""
    answer = shop.client(role).get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer


def test_a_batch_is_in_the_release_of_its_slot(shop):
    """What was kept is counted in its own slot, and in no other."""
    with open_store(shop.service.config.store, read_only=True) as store:
        counted = [sum(memoryview(paid.values).cast("q")) for paid in store.measurements("visits")]
    assert counted[0] != 0
    assert store is not None


def test_releases_by_slot_time_range_and_since(shop):
    """One release however it is named, and ranges of them in order, some at a time."""
    path = "/v1/streams/visits/releases"
    everything = get(shop, path).json()
    assert [each["slot"] for each in everything["releases"]] == [FIRST, FIRST + 1, FIRST + 2]
    assert everything["more_since"] is None
    assert get(shop, f"{path}/{FIRST}").json() == everything["releases"][0]
    assert get(shop, f"{path}/2026-01-01T00:00:07Z").json() == everything["releases"][0]
    assert get(shop, f"{path}/newest").json() == everything["releases"][2]
    assert [each["slot"] for each in get(shop, path, since=FIRST).json()["releases"]] == [FIRST + 1, FIRST + 2]
    assert [each["slot"] for each in get(shop, path, first=FIRST + 1, end=FIRST + 2).json()["releases"]] == [FIRST + 1]
    by_time = get(shop, path, first="2026-01-01T00:00:10Z", end="2026-01-01T00:00:20Z").json()["releases"]
    assert [each["slot"] for each in by_time] == [FIRST + 1]
    some = get(shop, path, limit=2)
    assert some.json()["more_since"] == FIRST + 1
    assert some.links["next"]["url"].endswith(f"since={FIRST + 1}")
    lines = shop.client("analyst").get(path, headers={"accept": "application/x-ndjson"})
    assert [json.loads(line) for line in lines.text.splitlines()] == everything["releases"]
    part = get(shop, "/v1/streams/visits", first=FIRST + 1, end=FIRST + 2).json()
    assert (part["number"], part["first"], part["newest"], part["clock"]["next"]) == (
        1, FIRST + 1, FIRST + 1, FIRST + 3,
    )  # fmt: skip


def test_a_slot_that_is_not_released_is_not_there(shop):
    """Slots before the first and after the last, and streams that there are not."""
    for path in (f"visits/releases/{FIRST - 1}", f"visits/releases/{FIRST + 3}", "nobody/releases", "a%2Fb/releases"):
        answer = shop.client("analyst").get(f"/v1/streams/{path}")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == 404


QUESTIONS = {
    "top": ({"k": 2}, lambda r: [share for _, share in r.top(2)]),
    "probability": ({"value": "home"}, lambda r: [r.probability("home").value]),
    "count": ({"value": "home"}, lambda r: [r.count("home").value]),
    "total": ({}, lambda r: [r.count().value]),
    "reach": ({}, lambda r: [r.reach().value]),
    "l1": ({"beside": FIRST + 1}, None),
    "kl": ({"beside": FIRST + 1}, None),
    "join-size": ({"beside": FIRST + 1}, None),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_are_answered_as_a_release_answers_them(shop, question):
    """With the release's own numbers, and an interval that holds them."""
    given, expected = QUESTIONS[question]
    (found,) = get(shop, f"/v1/streams/visits/answers/{question}", slot=FIRST, **given).json()["answers"]
    first, second = (dpi.open(shop.service.store, "visits")[FIRST + n] for n in (0, 1))
    values = expected(first) if expected else [getattr(first, question.replace("-", "_"))(second).value]
    assert [row["value"] for row in found["rows"]] == pytest.approx(values)
    assert all(row["lower"] <= row["value"] <= row["upper"] for row in found["rows"])
    assert found["slot"] == FIRST


@pytest.mark.parametrize(
    ("question", "given", "why"),
    [
        ("retention", {}, "`retention` needs after."),
        ("retention", {"after": 2}, "`retention` must be 1, 7 or 30. Got 2."),
        ("retention", {"after": 7, "cohort": "old"}, "`cohort` must be new or first. Got 'old'."),
        ("retention", {"after": 7, "cohort": "first"}, NOT_SURER),
        ("retention", {"window": 7}, "`retention` takes after, cohort."),
        ("stickiness", {"window": 7}, NOT_SURER),
        ("further-activity", {}, NOT_SURER),
    ],
)
def test_engagement_that_is_not_known_or_not_asked_well_is_refused(shop, question, given, why):
    """With a sentence: a stream of few slots says nothing of how users go on."""
    answer = shop.client("analyst").get(f"/v1/streams/visits/answers/{question}", params={"slot": FIRST, **given})
    assert answer.status_code == 422
    assert why in answer.json()["detail"]


def test_questions_about_numbers_and_pairs(tmp_path):
    """Ordered domains, products, parts of them, and levels."""
    pairs = dpi.Product(age=dpi.Bins([0, 50, 100]), height=dpi.Bins([0, 1, 2]))
    with running(tmp_path, settings(domain=pairs)) as found:
        found.clock.now += 5_000_000
        value = {"age": [10, 60] * 20, "height": [0.5, 1.5] * 20}
        body = {"user": list(range(40)), "time": [MOMENT] * 40, "value": value}
        given = {"producer": "p", "sequence": 0, "unit": "us"}
        assert found.client("curator").post("/v1/streams/visits/events", params=given, json=body).status_code == 200
        found.set(11)
        path = "/v1/streams/visits/answers"
        for question, more in {
            "mean": {"part": "age"}, "median": {"part": "age"}, "sum": {"part": "age"}, "spread": {"part": "age"},
            "quantile": {"part": "age", "q": 0.9}, "range": {"part": "age", "low": 0, "high": 50},
            "correlation": {"one": "age", "other": "height"}, "top": {"k": 1, "where": "height=1.5"},
            "probability": {"value": ["age=10", "height=0.5"]},
        }.items():  # fmt: skip
            wide, narrow = (get(found, f"{path}/{question}", level=level, **more).json() for level in (0.99, 0.5))
            rows = [each["answers"][0]["rows"][0] for each in (wide, narrow)]
            assert rows[0]["upper"] - rows[0]["lower"] >= rows[1]["upper"] - rows[1]["lower"]
        bad = [("mean", {}), ("top", {}), ("top", {"k": 0}), ("top", {"k": 1, "q": 1}), ("quantile", {"q": "x"}),
               ("mean", {"part": "age", "level": 1}), ("l1", {}), ("correlation", {"one": "age", "other": "x"}),
               ("probability", {"value": "age=10"}), ("mean", {"slot": FIRST, "first": FIRST})]  # fmt: skip
        for question, more in bad:
            assert found.client("analyst").get(f"{path}/{question}", params=more).status_code == 422, question
        assert found.client("analyst").get(f"{path}/why").status_code == 404


def test_the_chain_and_the_export_verify(shop, tmp_path):
    """What an auditor gets is whole, and can be checked without the service."""
    chain = get(shop, "/v1/chain", role="auditor").json()
    assert [each["entry"] for each in chain["entries"]] == list(range(chain["head"] + 1))
    certificate = get(shop, f"/v1/streams/visits/releases/{FIRST}").json()["certificate"]
    assert certificate["digest"] in {each["digest"] for each in chain["entries"]}
    part = get(shop, "/v1/chain", role="auditor", after=1, limit=1).json()["entries"]
    assert part == [chain["entries"][2]]
    for after in range(-1, chain["head"] + 1):
        assert get(shop, "/v1/chain", role="auditor", after=after).json()["entries"] == chain["entries"][after + 1 :]
    for wrong in ({"after": -2}, {"limit": 0}, {"limit": 1001}):
        assert shop.client("auditor").get("/v1/chain", params=wrong).status_code == 422, wrong
    assert get(shop, "/v1/chain", role="auditor", limit=1000).json() == chain
    (tmp_path / "public.db").write_bytes(get(shop, "/v1/export", role="auditor").content)
    with open_store(tmp_path / "public.db", read_only=True) as store:
        assert verify(store).intact
        assert len(dpi.open(store)) == 3


def test_what_a_stream_is(shop):
    """Its options, its promise in words, and when its next release is seen."""
    found = get(shop, "/v1/streams/visits", role="auditor").json()
    assert found["guarantee"].startswith("Pure differential privacy, ε = 1 per user for ever")
    assert (found["first"], found["newest"]) == (FIRST, FIRST + 2)
    assert found["clock"]["next"] == FIRST + 3
    assert found["clock"]["closes"] == "2026-01-01T00:00:40+00:00"
    assert found["clock"]["seen"] == "2026-01-01T00:00:41+00:00"
    domain = get(shop, f"/v1/domains/{found['domain']}").json()
    assert domain["values"] == ["home", "search"]
    assert shop.client("analyst").get("/v1/domains/none").status_code == 404


def test_opening_a_stream_says_whose_newcomers_end(tmp_path):
    """The stream that had the ε alone until then, and no other; a stream with its own ε takes nothing."""
    new = {"domain": ["a", "b"], "epsilon": 1, "slot": "10s", "from": BEGIN}
    with running(tmp_path) as found:
        apart = new | {"name": "apart", "separate": True}
        assert found.client("admin").post("/v1/streams", json=apart).status_code == 403
        opened = [
            found.client(by).post("/v1/streams", json=request).json()
            for by, request in (
                ("another admin", apart), ("admin", new | {"name": "two"}), ("admin", new | {"name": "three"})
            )
        ]  # fmt: skip
    assert opened == [
        {"name": "apart", "newcomers_end": []}, {"name": "two", "newcomers_end": ["visits"]},
        {"name": "three", "newcomers_end": []},
    ]  # fmt: skip


def test_streams_are_opened_and_changed(tmp_path):
    """By an admin, with the options of dpi.toml; a change begins with a slot that has not begun, and survives."""
    new = {"name": "ages", "domain": {"kind": "bins", "edges": [0, 18, 65]}, "epsilon": 1, "slot": "1h",
           "from": BEGIN, "per-slot": 0.1}  # fmt: skip
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0).isoformat()
    with running(tmp_path, settings(begin=begin, per_slot="0.1", slot="1h"), now=None) as found:
        admin = found.client("admin")
        assert admin.post("/v1/streams", json=new | {"from": begin}).status_code == 201
        assert admin.post("/v1/streams", json=new | {"from": begin}).status_code == 409
        assert [each["name"] for each in get(found, "/v1/streams").json()["streams"]] == ["ages", "visits"]
        changed = {key: value for key, value in new.items() if key not in ("name", "from")} | {"per-slot": 0.2}
        assert admin.put("/v1/streams/ages", json=changed).status_code == 200
        assert admin.put("/v1/streams/ages", json=changed | {"epsilon": 2}).status_code == 422
        assert admin.put("/v1/streams/none", json=changed).status_code == 404
        for bad in (
            {"name": "<b>"}, {"name": "../x"}, {"name": 5}, {"epsilon": "much"}, {"slot": "soon"}, {"colour": "red"},
            {"domain": {"kind": "list"}}, {"epsilon": True}, {"every": "x"}, {"period": "x"},
            {"draw": "rba:1"}, {"from": "x"},
        ):  # fmt: skip
            answer = admin.post("/v1/streams", json=new | {"name": "other"} | bad)
            assert answer.status_code == 422, bad
            assert answer.json()["detail"]
        assert admin.post("/v1/streams", content=b"{", headers={"content-type": "application/json"}).status_code == 400
        assert admin.post("/v1/streams", content=b"[]", headers={"content-type": "application/json"}).status_code == 422
        assert admin.post("/v1/streams", content=b"x=1").status_code == 415
    with running(tmp_path, settings(begin=begin, per_slot="0.1", slot="1h"), now=None) as again:
        assert [each["name"] for each in get(again, "/v1/streams").json()["streams"]] == ["ages", "visits"]
        assert len(again.service.store.options("ages").entries) == 2


def test_every_answer_has_its_headers(shop):
    """Nothing is cached that changes, nothing is sniffed or framed, and nobody is told which program this is."""
    for path in ("/v1/health", "/v1/ready", "/v1/streams/visits", "/nowhere", "/v1/streams/x"):
        answer = shop.client("analyst").get(path)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers
    lasting = shop.client("analyst").get(f"/v1/streams/visits/releases/{FIRST}")
    assert "immutable" in lasting.headers["cache-control"]
    wrong = shop.client("analyst").delete("/v1/streams")
    assert (wrong.status_code, wrong.headers["content-type"]) == (405, "application/problem+json")


def test_the_description_has_every_route(shop):
    """OpenAPI names each route with its method, and says who may use it."""
    described = get(shop, "/v1/openapi.json", role=None).json()
    routes = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert routes == {(each.method, each.path) for each in ENDPOINTS}
    assert described["openapi"].startswith("3.1")


def test_unknown_parameters_are_refused(shop):
    """A parameter that is misspelt would otherwise be taken for left out."""
    for path in (
        "/v1/streams?x=1",
        "/v1/streams/visits/releases?form=1",
        "/v1/streams/visits/releases?since=1&since=2",
    ):
        assert shop.client("analyst").get(path).status_code == 422
    for path in ("since=x", "since=99999999999999999999", "limit=0", "first=soon", "since=1&first=2"):
        assert shop.client("analyst").get(f"/v1/streams/visits/releases?{path}").status_code == 422


def test_a_domain_with_markup_is_only_text(tmp_path):
    """Values of a domain are JSON, whatever they hold."""
    odd = dpi.Categories(["<script>alert(1)</script>", "a\nb", "\u202e"])
    with running(tmp_path, settings(domain=odd)) as found:
        found.set(11)
        (answer,) = get(found, "/v1/streams/visits/answers/top", k=3).json()["answers"]
        assert {row["label"] for row in answer["rows"]} <= {*odd.values, "other"}
    assert PAGES.size == 3


def test_events_are_told_by_the_domain_of_their_own_slot(tmp_path):
    """Over a change that an admin makes while events come: slots before it keep their values."""
    with running(tmp_path, settings(per_slot="0.1"), now=MOMENT + 5_000_000) as found:
        changed = {"domain": ["home", "shop"], "epsilon": 1, "slot": "10s", "per-slot": 0.1}
        answer = found.client("admin").put("/v1/streams/visits", json=changed | {"change": "2026-01-01T00:00:20+00:00"})
        assert answer.status_code == 200, answer.text
        assert found.send([("ada", 1.0, "search"), ("bob", 1.0, "shop")], 0).status_code == 200
        found.set(25)
        assert found.send([("ada", 21.0, "search"), ("bob", 21.0, "shop")], 1).status_code == 200
        assert sorted(found.service.store.events("visits", FIRST + 2).bins.tolist()) == [1, 2]
        found.set(31)
        values = [
            get(found, f"/v1/domains/{get(found, f'/v1/streams/visits/releases/{slot}').json()['domain']}").json()[
                "values"
            ]
            for slot in (FIRST, FIRST + 1, FIRST + 2)
        ]
        assert values == [["home", "search"], ["home", "search"], ["home", "shop"]]
        with found.connect("analyst") as service:
            assert [len(release.domain.values) for release in service.stream()] == [2, 2, 2]


def test_across_a_change_of_the_domain_answers_are_given_where_they_can_be(tmp_path):
    """Slots without the value are listed with the reason; if no slot has it, the question is refused."""
    with running(tmp_path) as found:
        found.set(21)
    helping = settings(domain=dpi.Categories(["home", "help"]))
    with open_store(tmp_path / "visits.db") as store:
        helping.open(store, change="2026-01-01T00:00:30+00:00")
    with running(tmp_path, helping, now=MOMENT + 21 * SECOND) as found:
        found.set(52)
        path, period = "/v1/streams/visits/answers/probability", {"first": FIRST}
        told = get(found, path, value="help", **period).json()
        assert [answer["slot"] for answer in told["answers"]] == [FIRST + 3, FIRST + 4]
        why = "'help' is not in the domain."
        assert told["undefined"] == [{"slot": FIRST + slot, "why": why} for slot in range(3)]
        assert get(found, path, value="home", **period).json()["undefined"] == []
        refused = found.client("analyst").get(path, params={"value": "none", **period})
        assert (refused.status_code, "not in the domain" in refused.json()["detail"]) == (422, True)


def test_a_budget_says_what_the_whole_store_can_have_cost(tmp_path):
    """Beside the stream's own part, the sum over streams of the same accounts, of what is seen by now."""
    with running(tmp_path, settings(quota="0.5"), settings(name="other", quota="0.25")) as found:
        found.clock.now = MOMENT + 5 * SECOND
        assert found.send([("ada", 1.0, "home")], 0).status_code == 200
        before = found.client("analyst").get("/v1/streams/visits/budget").json()
        assert (before["spent_at_most"], before["spent_by_store"], before["streams"]) == (0, 0, 2)
        found.set(21)
        parts = [found.client("analyst").get(f"/v1/streams/{name}/budget").json() for name in ("visits", "other")]
        assert all(part["spent_at_most"] > 0 for part in parts)
        for part in parts:
            assert part["spent_by_store"] == pytest.approx(sum(each["spent_at_most"] for each in parts), abs=1e-9)


def test_connections_that_fail_or_are_let_go_are_closed(tmp_path):
    """A reader that has failed is used by nobody after it, and none is left open when the service ends."""
    with running(tmp_path) as found:
        reading = Reading(found.service.config.store, found.service.publication, {}, {})
        with pytest.raises(OSError, match="broken"), reading.store() as failed:
            raise OSError("broken")
        with reading.store() as kept:
            assert kept is not failed
        reading.close()
        for each in (failed, kept):
            with pytest.raises(Exception, match="closed"):
                each.head()


def test_amounts_are_summed_over_batches_and_grids(tmp_path):
    """Batches of a slot are added up by user; the grid moves, and answers, pictures and a restart go along with it."""
    amounts = settings(domain=dpi.Amounts("0.01"), epsilon="20")
    with running(tmp_path, amounts) as found:
        for slot in range(3):
            for batch in range(2):
                found.clock.now = MOMENT + round((10 * slot + 2 + batch) * 1e6)
                rows = [(f"{slot}-{n}", 10 * slot + 1, "12.50") for n in range(300)]
                assert found.send(rows, 2 * slot + batch).status_code == 200
            found.set(10 * slot + 11)
        path = "/v1/streams/visits"
        found.set(32)
        median = get(found, f"{path}/answers/median", slot=FIRST + 2).json()["answers"][0]["rows"][0]
        assert median["lower"] <= 25 <= median["upper"] <= 100
        total = get(found, f"{path}/answers/sum", slot=FIRST + 2).json()["answers"][0]["rows"][0]
        assert total["lower"] <= 7500 <= total["upper"]
        assert get(found, f"{path}/picture", slot=FIRST + 2).json()["domain"]["size"] < 34
        grid = found.service.closing.streams["visits"].domain
    with running(tmp_path, amounts, now=MOMENT + 35_000_000) as found:
        assert found.service.closing.streams["visits"].domain == grid


def test_spellings_of_one_name_are_one_account(tmp_path):
    """Over HTTP as anywhere: by the rule that the stream declares, which analysts can read."""
    new = {"domain": ["home"], "epsilon": 1, "slot": "10s", "per-slot": 0.1, "from": "2026-01-01T00:00:00+00:00"}
    with running(tmp_path) as found:
        admin = found.client("admin")
        for name, ids, answer in (("other", "exact", 422), ("apart", "folded", 422), ("apart", "exact", 201)):
            own = {"separate": True} if name == "apart" else {}
            if own:
                found.client("another admin").post("/v1/streams", json={"name": name, "ids": ids, **own, **new})
            told = admin.post("/v1/streams", json={"name": name, "ids": ids, **own, **new})
            assert told.status_code == answer, told.text
            assert answer == 201 or "`ids` must be" in told.json()["detail"]
        found.clock.now = MOMENT + 5 * SECOND
        assert found.send([(user, 1.0, "home") for user in ("Zoë", "Zoe\u0308", " Zoë", "ada")], 0).status_code == 200
        found.set(10)
        stated = {each["name"]: each["options"].get("ids") for each in admin.get("/v1/streams").json()["streams"]}
        assert stated == {"visits": "nfc-strip", "apart": None}
        told = found.client("curator").get("/v1/operations").json()["streams"]
        assert next(each for each in told if each["stream"] == "visits")["accounts"]["number"] == 2
