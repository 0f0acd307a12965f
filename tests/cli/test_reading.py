import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpi
from cli_files import PERIOD
from dpi.testing.class_sums import ClassSums


@pytest.fixture
def store(cli, visits):
    """A store with six hours."""
    cli("keys", "signing.pem")
    cli("run", *visits, *PERIOD, "--store", "visits.db", "--out", "releases.ndjson", "--config", "sign=signing.pem")
    return "visits.db"


def releases(path="visits.db"):
    """The releases in a store."""
    with dpi.open(path) as stored:
        return list(stored)


def test_answers_are_those_of_the_release(cli, store):
    """Each question gives the release's own answer, with its interval."""
    last = releases()[-1]
    for question, answer in (
        (["probability", "DE"], last.probability("DE")),
        (["count", "FR"], last.count("FR")),
        (["total"], last.count()),
    ):
        (row,) = cli.json("query", store, *question)["answers"][0]["rows"]
        lower, upper = answer.interval()
        assert row["value"] == answer.value
        assert (row["lower"], row["upper"]) == (max(lower, 0), upper if math.isfinite(upper) else None)
    rows = cli.json("query", store, "top", "3")["answers"][0]["rows"]
    (share,) = cli.json("query", store, "probability", rows[0]["label"])["answers"][0]["rows"]
    assert (share["lower"], share["upper"]) == (rows[0]["lower"], rows[0]["upper"])  # one value, one interval
    assert [(row["label"], row["value"]) for row in rows] == last.top(3)
    assert all(row["lower"] <= row["value"] <= row["upper"] for row in rows)


def test_ordered_and_product_domains(cli, visits):
    """Quantiles and ranges of bins; marginals, conditionals and correlation of products."""
    cli("domain", "--bins", "0:100:10", "-o", "ages.json")
    cli("domain", "--product", "b=ages.json", "--product", "a=ages.json", "-o", "pairs.json")
    words = ["visits.csv", "--time", "at", "--slot", "1h", "--epsilon", "1", *PERIOD]
    cli("run", *words, "--domain", "ages.json", "--value", "age", "--store", "ages.db")
    last = releases("ages.db")[-1]
    for question, answer in (
        (["mean"], last.mean()),
        (["median"], last.median()),
        (["quantile", "0.25"], last.quantile(0.25)),
        (["range", "20", "40"], last.range(20, 40)),
        (["sum"], last.sum()),
        (["spread"], last.spread()),
        (["newcomers"], last.newcomers()),
        (["returning"], last.returning()),
        (["reach"], last.reach()),
        (["probability", "25"], last.probability(25)),
    ):
        assert cli.json("query", "ages.db", *question)["answers"][0]["rows"][0]["value"] == answer.value
    cli("run", *words, "--domain", "pairs.json", "--value", "a=age", "--value", "b=age", "--store", "pairs.db")
    last = releases("pairs.db")[-1]
    found = cli.json("query", "pairs.db", "correlation", "a", "b")["answers"][0]["rows"][0]["value"]
    assert found == last.correlation("a", "b").value
    found = cli.json("query", "pairs.db", "mean", "--part", "a")["answers"][0]["rows"][0]["value"]
    assert found == last.marginal("a").mean().value
    found = cli.json("query", "pairs.db", "mean", "--where", "b=35")["answers"][0]["rows"][0]["value"]
    assert found == last.where(b=35).mean().value
    found = cli.json("query", "pairs.db", "probability", "a=25", "b=25")["answers"][0]["rows"][0]["value"]
    assert found == last.probability({"a": 25, "b": 25}).value


def test_which_slots(cli, store):
    """One slot by number or by a time in it, the last, or every slot that begins in a period."""
    numbers = [release.slot for release in releases()]
    assert cli.json("query", store, "total", "--slot", numbers[2])["answers"][0]["slot"] == numbers[2]
    assert cli.json("query", store, "total", "--slot", "last")["answers"][0]["slot"] == numbers[-1]
    for time, slot in (("2026-01-01", 0), ("2026-01-01T01:59:59.9", 1), ("2026-01-01T03:00+01:00", 2)):
        assert cli.json("query", store, "total", "--slot", time)["answers"][0]["slot"] == numbers[slot]
    cli("query", store, "total", "--slot", "soon", code=2)
    assert "`--slot` must be a time in ISO 8601" in cli.stderr
    cli("query", store, "total", "--slot", "2031-01-01", code=2)
    assert "is not in the store" in cli.stderr
    period = ["--from", "2026-01-01T00:30", "--to", "2026-01-01T03:00"]
    found = cli.json("query", store, "top", "1", *period)["answers"]
    assert [answer["slot"] for answer in found] == numbers[1:3]
    assert cli.json("query", store, "total", "--from", "2030-01-01")["answers"] == []
    cli("query", store, "top", "2", *period)
    assert cli.stdout.count("2026-01-01T01:00:00+00:00") == 2


@pytest.fixture
def changed(cli):
    """A store whose list changes after two hours, from DE and FR to DE and IT, and back to the first after two more."""
    domains = [dpi.Categories(["DE", "FR"]), dpi.Categories(["DE", "IT"]), dpi.Categories(["DE", "FR"])]
    for hour, domain in enumerate(domains):
        with dpi.Stream(
            domain=domain,
            epsilon=1,
            slot="1h",
            start="2026-01-01",
            store="changed.db",
            change="next" if hour else False,
        ) as stream:
            for _ in range(2):
                stream.release(["ada", "bob"], ["DE", "DE"])
    return "changed.db"


def test_across_a_change_of_the_domain_questions_are_answered_where_they_can_be(cli, changed):
    """Slots that have the value are answered, the others are named; a value that no slot has is refused as ever."""
    numbers = [release.slot for release in releases(changed)]
    period = ["--from", "2026-01-01"]
    found = cli.json("query", changed, "probability", "IT", *period)
    assert [answer["slot"] for answer in found["answers"]] == numbers[2:4]
    why = "'IT' is not in the domain."
    assert found["undefined"] == [{"slot": slot, "why": why} for slot in (*numbers[:2], *numbers[4:])]
    cli("query", changed, "probability", "IT", *period)
    assert cli.stdout.count("2026-01-01T0") == 2
    assert cli.stderr.splitlines() == [
        f"dpi: no answer for slots 2026-01-01T00:00:00+00:00 to 2026-01-01T01:00:00+00:00: {why}",
        f"dpi: no answer for slots 2026-01-01T04:00:00+00:00 to 2026-01-01T05:00:00+00:00: {why}",
    ]
    everywhere = cli.json("query", changed, "probability", "DE", *period)
    assert [answer["slot"] for answer in everywhere["answers"]] == numbers
    assert everywhere["undefined"] == []
    cli("query", changed, "probability", "PL", *period, code=2)
    assert "'PL' is not in the domain" in cli.stderr
    cli("query", changed, "probability", "IT", code=2)
    cli("query", changed, "probability", "DE", "--part", "country", *period, code=2)
    assert "needs a Product domain" in cli.stderr


def test_a_report_across_a_change_has_all_slots(cli, changed):
    """Values of the newest list have rows; one of an earlier list ends the page with it; one of none is refused."""
    cli("report", changed, "-o", "all.html")
    html = Path("all.html").read_text("utf-8")
    assert "6 slots of 1 h" in html
    assert "From 2026-01-01 02:00 to 2026-01-01 03:00 the domain was another: FR has no number there." in html
    cli("report", changed, "--values", "DE,IT", "-o", "it.html")
    assert "the page ends before slot 2026-01-01T04:00:00+00:00, where the domain has no such values" in cli.stderr
    html = Path("it.html").read_text("utf-8")
    assert "4 slots of 1 h" in html
    assert "From 2026-01-01 00:00 to 2026-01-01 01:00 the domain was another: IT has no number there." in html
    cli("report", changed, "--values", "PL", "-o", "pl.html", code=2)
    assert "'PL' is not in the domain" in cli.stderr


@pytest.mark.parametrize(
    "question",
    [["topp", "3"], ["top", "few"], ["top", "0"], ["probability", "XX"], ["mean"], ["quantile", "x"],
     ["correlation", "a", "b"], ["total", "--slot", "7"],
     ["total", "--slot", "x"], ["total", "--stream", "none"], ["total", "--from", "soon"]],
)  # fmt: skip
def test_questions_that_have_no_answer(cli, store, question):
    """They are wrong usage."""
    cli("query", store, *question, code=2)
    assert cli.stdout == ""


@pytest.mark.parametrize(
    ("question", "said"),
    [("top", "the question is `top K`, such as `top 5`. Got 'top'."),
     ("range 3", "the question is `range LOW HIGH`, such as `range 0 10`. Got 'range 3'."),
     ("probability", "the question is `probability VALUE`. Got 'probability'."),
     ("median DE", "the question is `median`. Got 'median DE'."),
     ("topp 3", "unknown question 'topp 3': ask top K,")],
)  # fmt: skip
def test_a_question_with_other_words_than_it_takes(cli, store, question, said):
    """Its form is shown."""
    cli("query", store, *question.split(), code=2)
    assert said in " ".join(cli.stderr.split())


def test_an_interval_that_says_nothing_is_not_shown(cli):
    """On the first grid of amounts, empty bins far out reach over millions: "not known yet" stands for an interval."""
    lines = [f"u{user},2026-01-0{day}T10:00:00,{5 + user % 40}" for day in (1, 2, 3) for user in range(2000)]
    Path("orders.csv").write_text("\n".join(["user,at,revenue", *lines]) + "\n")
    period = ["--slot", "1d", "--from", "2026-01-01", "--to", "2026-01-04"]
    cli("run", "orders.csv", "--time", "at", "--amount", "revenue", *period, "--epsilon", "1", "--store", "orders.db")
    for question in ("sum", "mean"):
        first, *later = cli("query", "orders.db", question, "--from", "2026-01-01").splitlines()[1:]
        assert "not known yet" in first
        assert all(" … " in line for line in later)
    (answer, *_) = cli.json("query", "orders.db", "sum", "--from", "2026-01-01")["answers"]
    assert answer["rows"][0]["lower"] < 0 < answer["rows"][0]["upper"]
    assert " … " in cli("query", "orders.db", "median", "--slot", "2026-01-01")


def test_several_streams_must_be_named(cli, visits):
    """The names, which are public, are told."""
    for name in ("one", "two"):
        cli("run", *visits, "--from", "2026-01-01", "--to", "2026-01-01T01:00", "--store", "s.db", "--name", name)
    assert "'one', 'two'" in cli("query", "s.db", "total", code=2)
    assert cli.json("query", "s.db", "total", "--stream", "two")["stream"] == "two"
    assert "'one', 'two'" in cli("report", "s.db", code=2)
    assert cli.json("verify", "s.db")["epsilon_spent"].keys() == {"one", "two"}


def test_a_report_draws_the_values_that_are_asked_for(cli, store):
    """By name, or so many of the largest; what is not in the domain, and both at once, is refused."""
    listed = releases()[-1].domain.values

    def named(*words):
        cli("report", store, "-o", "page.html", *words)
        text = (cli.folder / "page.html").read_text(encoding="utf-8")
        return json.loads(text.partition('id="data">')[2].partition("</script>")[0])["labels"][:-1]

    assert named("--values", f"{listed[1]},{listed[0]}") == [listed[1], listed[0]]
    assert named("--values", listed[1], "--values", listed[0]) == [listed[1], listed[0]]
    assert len(named("--values", "top:2")) == 2
    assert "'nowhere' is not in the domain" in cli("report", store, "--values", "nowhere", code=2)
    near = f"'{listed[0]}x' is not in the domain: did you mean '{listed[0]}'?"
    assert near in cli("report", store, "--values", f"{listed[0]}x", code=2)
    assert near in cli("query", store, "probability", f"{listed[0]}x", code=2)
    assert "or top:K" in cli("report", store, "--values", "DE", "--values", "top:2", code=2)
    assert "above 0" in cli("report", store, "--values", "top:0", code=2)


def test_a_report_is_one_page(cli, store):
    """The page needs nothing else, and the same store gives the same page."""
    cli("report", store)
    page = Path("visits.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert cli.json("report", store, "-o", "again.html", "--title", "visits") == {"page": "again.html", "problems": []}
    assert Path("again.html").read_text() == page
    assert "folder" in cli("report", store, "-o", "nowhere/page.html", code=2)


def test_verification_finds_what_was_changed(cli, store):
    """A whole store and its file have exit code 0; a release or an account that was changed has 1."""
    said = cli("verify", store, "--curator", "--public-key", "signing.pub")
    assert "The chain is whole." in said
    found = cli.json("verify", store, "--public-key", "signing.pub")
    assert found["intact"] is found["signed"] is True
    assert found["entries"] == 7
    for how in (["--domain", "countries.txt", "--other", "elsewhere"], ["--store", store]):
        assert cli.json("verify", "releases.ndjson", *how)["entries"] == 6
    lines = Path("releases.ndjson").read_text().splitlines()
    changed = json.loads(lines[2])
    changed["total"] += 1
    Path("releases.ndjson").write_text("\n".join([*lines[:2], json.dumps(changed), *lines[3:]]) + "\n")
    said = cli("verify", "releases.ndjson", "--store", store, code=1)
    assert "is not the one its certificate vouches for" in said
    cli("keys", "another.pem")
    assert cli.json("verify", store, "--public-key", "another.pub", code=1)["signed"] is False
    with dpi.open_store(store) as opened:
        content = opened.engine.rows("SELECT content FROM releases WHERE slot = (SELECT MAX(slot) FROM releases)")[0][0]
        changed = content[:-1] + bytes([content[-1] ^ 1])
        opened.engine.execute("UPDATE releases SET content = ? WHERE content = ?", (changed, content))
    assert cli.json("verify", store, code=1)["problems"]
    assert cli.json("report", store, "-o", "page.html", code=1)["problems"]
    assert "vouches for" in Path("page.html").read_text()


def test_verify_says_what_it_needs(cli, store):
    """A file of releases needs a domain; accounts are of stores."""
    assert "--domain" in cli("verify", "releases.ndjson", code=2)
    assert "is for a store" in cli("verify", "releases.ndjson", "--curator", "--store", store, code=2)
    assert "no file" in cli("verify", "none.parquet", "--store", store, code=2)
    assert "no witness" in cli("verify", store, "--witness", "none", code=2)


def test_the_ledger_tells_what_a_user_has_left(cli, store):
    """One who came every hour has nothing left, one who never came all; the answer is said to be private."""
    assert cli.json("ledger", store, "--user", "secret-user-1")["left"] < 1e-11  # ε is not five times 0.2 in 2^-40
    assert cli.json("ledger", store, "--user", "nobody")["left"] == 1
    cli("ledger", store, "--user", "-", stdin="secret-user-1\n")
    assert cli.stdout == "left 9.09495e-13 of 1\n"
    assert "private" in cli.stderr
    cli("ledger", store, "--user", "", code=2)


def test_the_ledger_tells_payments_by_class(cli):
    """Where users pay by class, it says how often one has: in this stream, and what is left over all."""
    options = {"domain": dpi.Categories(["a"], other=None), "epsilon": 1, "mechanism": ClassSums()}
    with dpi.open_store("m.db") as store:
        stream = dpi.Stream(**options, budget=dpi.Ledger(policy=dpi.budget.clocked(top=4)), store=store)
        for _ in range(3):
            stream.release(["secret-user-1"], ["a"])
        left = float(stream._accounts.remaining(pl.Series(["secret-user-1"]), 3)[0])
    assert cli.json("ledger", "m.db", "--user", "nobody") == {
        "left": 1.0, "epsilon": 1.0, "slot": 3, "payments": 0, "private": True,
    }  # fmt: skip
    assert cli.json("ledger", "m.db", "--user", "secret-user-1")["payments"] == 2
    cli("ledger", "m.db", "--user", "secret-user-1")
    assert cli.stdout == f"left {left:.6g} of 1, 2 payments in this stream\n"
    cli("verify", "m.db", "--curator")


def test_streams_with_quotas(cli, visits):
    """By an option or in a file; the ledger tells what is left of a stream's own part, and sums above ε are refused."""
    Path("dpi.toml").write_text('[run]\nname = "visits"\nquota = 0.25\n')
    cli("run", *visits, *PERIOD, "--store", "m.db", "--config", "dpi.toml")
    cli("run", *visits, *PERIOD, "--store", "m.db", "--name", "orders", "--config", "quota=0.5")
    cli("run", *visits, *PERIOD, "--store", "m.db", "--name", "rest")
    assert "is in no other quota" in cli(
        "run", *visits, *PERIOD, "--store", "m.db", "--name", "x", "--config", "quota=1/2", code=2
    )
    words = ["ledger", "m.db", "--user", "nobody", "--stream"]
    assert cli.json(*words, "visits") == {"left": 0.25, "epsilon": 1.0, "held": 0.25, "slot": 490902, "private": True}
    cli(*words, "orders")
    assert cli.stdout == "left 0.5 of 0.5, this stream's quota of ε = 1\n"
    cli(*words, "rest")
    assert cli.stdout == "left 0.25 of 0.25, what is in no quota of ε = 1\n"
    cli("verify", "m.db", "--curator")
    assert "shrinks" in cli(
        "run", *visits, *PERIOD, "--store", "m.db", "--name", "orders", "--config", "quota=0.3", "--change", code=2
    )


def test_the_ledger_tells_no_payments_of_a_stream_that_is_not_by_class(cli):
    """A stream with a cost shares a clocked ledger: what is left is told, and nothing that it does not count."""
    options = {"domain": dpi.Categories(["a"], other=None), "epsilon": 1}
    with dpi.open_store("m.db") as store:
        dpi.Stream(**options, name="one", store=store).release(["secret-user-1"], ["a"])
        costly = dpi.Stream(**options, name="two", budget=dpi.Ledger(per_slot="0.1"), store=store)
        costly.release(["secret-user-1"], ["a"])
    words = ("ledger", "m.db", "--user", "secret-user-1", "--stream")
    assert cli.json(*words, "one")["payments"] == 1
    assert "payments" not in cli.json(*words, "two")
    cli("verify", "m.db", "--curator")


def test_the_ledger_knows_epochs_and_series(cli, visits):
    """With epochs it is about the epoch of a slot; a converging series has no accounts."""
    cli("run", *visits, *PERIOD, "--config", "origin=2026-01-01", "--store", "e.db", "--config", "period=4")
    left = [cli.json("ledger", "e.db", "--user", "secret-user-1", "--slot", slot)["left"] for slot in (6, 8)]
    assert left == pytest.approx([0.6, 1.0], abs=1e-9)
    words = [word for word in visits if word not in ("--per-slot", "0.2")]
    cli("run", *words, *PERIOD, "--store", "c.db", "--config", "converging=log-squared")
    assert "no accounts" in cli("ledger", "c.db", "--user", "x", code=2)


def test_shares_stay_shares(cli, store):
    """Intervals of shares lie between 0 and 1."""
    for answer in cli.json("query", store, "top", "4", "--from", "2026-01-01")["answers"]:
        bounds = np.array([(row["lower"], row["upper"]) for row in answer["rows"]])
        assert (bounds >= 0).all()
        assert (bounds <= 1).all()


def played(path, slots, **options):
    """A store with so many days of the same users."""
    with dpi.Stream(domain=dpi.Categories(["home", "cart"]), epsilon=1, slot="1d", store=path, **options) as stream:
        visits = {"user": [f"u{n}" for n in range(400)] * slots, "page": ["home", "home", "cart", "cart"] * 100 * slots}
        visits["at"] = [f"2026-01-{1 + n // 400:02d}T12:00" for n in range(400 * slots)]
        list(stream.replay(visits, start="2026-01-01", end=f"2026-01-{1 + slots:02d}", time="at", value="page"))


def test_a_share_that_was_carried_forward_is_seen_as_such(cli):
    """Users who return are measured in some slots only: answers say how much was not measured in each, and when."""
    played("visits.db", 5)
    stored = releases()
    answers = cli.json("query", "visits.db", "probability", "home", "--from", "2026-01-01")["answers"]
    assert [(a["carried"], a["age"], a["payers"]) for a in answers] == [(1 - r.measured, r.age, False) for r in stored]
    assert {release.carried > 0.005 for release in stored} == {True, False}
    head, *lines = cli("query", "visits.db", "probability", "home", "--from", "2026-01-01").splitlines()
    assert head.endswith("carried forward")
    for line, release in zip(lines, stored, strict=True):
        assert line.rstrip().endswith(("slot ago", "slots ago") if release.carried >= 0.005 else "–")
    for release in stored:
        said = cli("query", "visits.db", "probability", "home", "--slot", str(release.slot))
        assert release.freshness in " ".join(said.split())


def test_answers_of_payers_say_so_and_have_no_upper_end(cli):
    """From the fourth day on, accounts of users who came daily are empty: that is said of these days."""
    played("visits.db", 5, budget=dpi.Ledger(slots=3))
    period = ("--from", "2026-01-01", "--to", "2026-01-06")
    answers = cli.json("query", "visits.db", "total", *period)["answers"]
    assert [answer["payers"] for answer in answers] == [False] * 3 + [True] * 2
    assert [answer["rows"][0]["upper"] is None for answer in answers] == [False] * 3 + [True] * 2
    said = " ".join(cli("query", "visits.db", "total", *period).split())
    assert said.count("at least") == 2
    assert "carried forward" not in said
    assert "From slot 2026-01-04T00:00:00+00:00 on: This describes users who can still pay." in said
    assert "2026-01-04" not in cli("query", "visits.db", "probability", "home", "--slot", "2026-01-02")
    one = " ".join(cli("query", "visits.db", "probability", "home").split())
    assert one.endswith("a number of users is a lower bound.")
