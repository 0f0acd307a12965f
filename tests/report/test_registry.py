"""An entry of the registry of deployments, and answers for reviewers: from public things and as the schema says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import dpi
from dpi.errors import OptionError
from dpi.report.deployment import ASK, describe_deployment, write_annex
from dpi.report.registry import NEEDED, SCHEMA, make_entry, read_about, to_yaml
from dpi.store.export import export

ROOT = Path(__file__).parents[2]
ABOUT = {
    "data_curators": ["Example Ltd"],
    "intended_use": "Show which pages are visited: daily, by anybody.",
    "data_product_region": "European Union",
    "registry_authors": ["Ada", "Bob"],
}
DOMAINS = {
    "list": dpi.Categories(["DE", "FR", 'a "quoted" one'], other="elsewhere"),
    "bins": dpi.Bins([0, 18, 65]),
    "hashed": dpi.Hashed(64, key=bytes(32)),
    "product": dpi.Product(land=dpi.Categories(["DE"]), age=dpi.Bins([18])),
}
STREAMS = {
    "clocked": {},
    "per slot": {"budget": dpi.Ledger(per_slot="0.05")},
    "epochs": {"budget": dpi.Ledger(per_slot="0.05", period=24)},
    "fading": {"budget": dpi.Ledger(per_slot="0.05", policy=dpi.budget.fade())},
    "series": {"budget": dpi.Converging(dpi.budget.Zeta())},
    "published": {"mechanism": dpi.Published(), "budget": dpi.Ledger(per_slot="0.05")},
    "tree": {"accumulate": dpi.stream.PrefixTree(per_slot="0.01"), "budget": dpi.Ledger(per_slot="0.05")},
    "whole pdf": {
        "compression": dpi.histogram.whole_pdf,
        "mechanism": dpi.Published(),
        "budget": dpi.Ledger(per_slot="0.05"),
    },
    "truncate": {"compression": dpi.histogram.truncate(3, bytes(32)), "budget": dpi.Ledger(per_slot="0.05")},
}


def stream_of(store, name="visits", domain="list", **options):
    """A stream with a clock."""
    given = {"epsilon": 1, "slot": "1h", "start": "2026-01-01", "domain": DOMAINS[domain]}
    return dpi.Stream(store=store, name=name, **(given | options))


@pytest.fixture(scope="session")
def schema():
    """The registry's own schema, of the commit that entries are made for; it is not part of this project."""
    yaml = pytest.importorskip("yaml", reason="entries are read with PyYAML: pip install PyYAML")
    places = [Path(os.environ["DPI_REGISTRY"])] if "DPI_REGISTRY" in os.environ else []
    places += [folder / "shared" / "registry" for folder in ROOT.parents[:2]]
    for place in places:
        if (place / "deployments-schema.yaml").exists():
            assert SCHEMA in (place / "README.md").read_text("utf-8"), "the schema is of another commit"
            return yaml.safe_load((place / "deployments-schema.yaml").read_text("utf-8"))
    pytest.skip(
        f"put deployments-schema.yaml of opendp/deployments-registry-data at {SCHEMA}, with a README.md that says so, "
        "into a folder, and name that in DPI_REGISTRY"
    )


def checked(schema, made):
    """The entry as somebody reads it from YAML; as the schema says."""
    import yaml

    jsonschema = pytest.importorskip("jsonschema", reason="entries are checked with jsonschema: pip install jsonschema")
    read = yaml.safe_load(to_yaml(made))
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(read)
    return read


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_domain_gives_a_valid_entry(schema, domain):
    """As the schema says, and read back from YAML to the letter."""
    store = dpi.MemoryStore()
    stream = stream_of(store, domain=domain)
    stream.release([], [] if domain != "product" else {"land": [], "age": []})
    made = make_entry(describe_deployment(store, "visits"), ABOUT)
    assert checked(schema, made) == made


@pytest.mark.parametrize("kind", STREAMS)
def test_every_kind_of_stream_gives_a_valid_entry(schema, kind):
    """With the ε, the unit and the budget that its options state; no kind is without words."""
    store = dpi.MemoryStore()
    stream_of(store, **STREAMS[kind]).release(["ada"], ["DE"])
    found = describe_deployment(store, "visits")
    read = checked(schema, make_entry(found, ABOUT))
    loss, text = read["deployment"]["privacy_loss"], to_yaml(read) + write_annex(found, "review")
    assert loss["privacy_parameters"] == {"epsilon": 1.0}
    assert ("epoch of 24 slots" in loss["privacy_unit"]) == (kind == "epochs")
    assert "of its own (" not in text
    assert "a policy of its own" not in text
    assert ("tree of sums" in text) == (kind == "tree")
    assert ("converging series" in text) == (kind == "series")
    assert ("exponential mechanisms" in text.lower()) == (kind in ("published", "whole pdf"))


def test_all_of_tier_3_is_filled(schema):
    """Every field that the schema asks of tiers 1 to 3 is there, but for those that an organisation may add."""
    store = dpi.MemoryStore()
    stream_of(store).release(["ada"], ["DE"])
    made = make_entry(describe_deployment(store, "visits"), ABOUT)["deployment"]
    optional = {"data_product_sector", "sources", "notes"}
    for part, described in schema["properties"]["deployment"]["properties"].items():
        tiered = {name for name, field in described["properties"].items() if "tier" in field}
        assert tiered - set(made[part]) <= optional, part
    more = dict.fromkeys(("sources", "notes", "justification", "actors", "description", "name"), "said")
    said = make_entry(describe_deployment(store, "visits"), ABOUT | more | {"data_product_sector": "Technology"})
    checked(schema, said)
    assert said["deployment"]["basic"]["data_product_sector"] == "Technology"
    assert said["deployment"]["implementation"]["justification"] == "said"


def test_what_is_missing_is_named():
    """In one sentence; a stream without a clock or a release needs a day as well."""
    store = dpi.MemoryStore()
    stream_of(store)
    found = describe_deployment(store, "visits")
    with pytest.raises(OptionError) as error:
        make_entry(found, {"intended_use": "…"})
    for name in (*NEEDED, "publication_date"):
        assert (f"`{name}`" in str(error.value)) == (name != "intended_use")
    assert make_entry(found, ABOUT | {"publication_date": "2026-02-01"})["deployment"]["basic"]["publication_date"]
    stream_of(store).release([], [])
    assert (
        make_entry(describe_deployment(store, "visits"), ABOUT)["deployment"]["basic"]["publication_date"]
        == "2026-01-01"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('intended_usage = "x"', "unknown key `intended_usage`: did you mean `intended_use`?"),
        ('data_curators = "x"', "`data_curators` must be a list of texts."),
        ("registry_authors = []", "`registry_authors` must be a list of texts."),
        ("intended_use = 3", "`intended_use` must be a text."),
        ('data_product_sector = "Sports"', "`data_product_sector` must be one of: Technology"),
        ('publication_date = "soon"', "`publication_date` must be a day such as 2026-01-31."),
        ("[", "is not TOML"),
    ],
)
def test_what_is_wrong_with_what_is_said(tmp_path, text, sentence):
    """One sentence for each."""
    path = tmp_path / "about.toml"
    path.write_text(text)
    with pytest.raises(OptionError) as error:
        read_about(path)
    assert sentence in str(error.value)


def test_days_as_toml_has_them(tmp_path):
    """A date, a time, or a text."""
    path = tmp_path / "about.toml"
    for written in ("2026-01-31", "2026-01-31T10:00:00Z", '"2026-01-31"'):
        path.write_text(f"publication_date = {written}")
        assert read_about(path) == {"publication_date": "2026-01-31"}


def test_only_public_things_are_in_it(tmp_path):
    """A store and its export, which has no accounts, say the same; and so do two stores that differ in a user."""
    with dpi.open_store(tmp_path / "s.db") as store:
        stream = stream_of(store)
        for _ in range(3):
            stream.release(["zoe", "bob"], ["DE", "FR"])
        store.thin(2)
        export(store, tmp_path / "public.db")
        own = describe_deployment(store, "visits")
    with dpi.open_store(tmp_path / "public.db", read_only=True) as store:
        assert describe_deployment(store, "visits") == own
    assert own.span.endswith(f"… {own.thinned + 1}")
    assert "were dropped by a public rule" in write_annex(own, "review")
    assert "zoe" not in write_annex(own, "review")  # letters that no digest has


def test_the_guarantee_is_that_of_the_releases():
    """Also where streams sum up, and where something is assumed."""
    store = dpi.MemoryStore()
    one = stream_of(store)
    stream_of(store, "other", budget=dpi.Converging(dpi.budget.Zeta()), separate=True).release(["ada"], ["DE"])
    release = one.release(["ada"], ["DE"])
    found = describe_deployment(store, "visits")
    assert found.guarantee == release.guarantee
    assert "sum to 2 per user" in found.guarantee
    assert found.guarantee in write_annex(found, "review")
    assert found.guarantee in make_entry(found, ABOUT)["deployment"]["privacy_loss"]["privacy_parameters_details"]


def test_a_review_says_what_it_cannot_know():
    """Questions to the organisation are left to it; a large ε and epochs are pointed at."""
    store = dpi.MemoryStore()
    stream_of(store, epsilon=3, budget=dpi.Ledger(per_slot="0.05", period=24))
    text = write_annex(describe_deployment(store, "visits"), "review")
    assert text.count(ASK) == 7
    assert "a factor of at most 20.1" in text
    assert "above 1" in text
    assert "Every 24 slots" in text
    assert "none yet" in text
