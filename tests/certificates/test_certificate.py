"""What a person sees of a certificate: numbers and words."""

import json
import re

import pytest

import dpi
from dpi.certificates.chain import canonical, link_of
from dpi.mechanism.published.linear import dyadic, points
from dpi.mechanism.published.pool import Multinomial
from dpi.release import Release, from_frame, to_frame
from dpi.report import page
from dpi.stream import slot_closer
from dpi.verification import verify

DOMAIN = dpi.Categories(["DE", "FR"], other="elsewhere")
REPR = re.compile(r"[A-Za-z_]\w*\(|\bNone\b|\bTrue\b|\bFalse\b|<[\w.]+ object|Fraction")
"""How Python writes an object."""


def stream(**options):
    """A stream in memory."""
    given = {"domain": DOMAIN, "epsilon": 1, "budget": dpi.Ledger(per_slot="0.25"), "store": dpi.MemoryStore()}
    return dpi.Stream(**(given | options))


MECHANISMS = {
    "boosted": dpi.Boosted(season=24),
    "blocks": dpi.Boosted(partitions=(dpi.domain.Blocks(2),)),
    "published": dpi.Published(Multinomial(50)),
    "queries": dpi.Published(queries=points(3), n_min=2000, mu="0.5", total_share="0.1"),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_certificate_is_numbers_and_words(mechanism):
    """Name of the stream, ε as numbers beside exact units, the mechanism by name with its parameters; no repr."""
    release = stream(mechanism=MECHANISMS[mechanism], name="visits").release(["ada"], ["DE"])
    certificate = release.certificate
    assert certificate["stream"] == "visits"
    assert certificate["mechanism"] == ("published" if isinstance(MECHANISMS[mechanism], dpi.Published) else "boosted")
    assert (certificate["epsilon"], certificate["epsilon_spent"], certificate["epsilon_total"]) == (0.25, 0.25, 1.0)
    assert certificate["epsilon_units"] == 1 << 38
    assert not REPR.search(json.dumps(certificate, ensure_ascii=False))


def test_parameters_are_readable():
    """Those that the mechanism was made with, as JSON."""
    found = stream(mechanism=dpi.Boosted(season=24)).release(["ada"], ["DE"]).certificate["parameters"]
    assert found == {"season": 24, "partitions": "auto"}
    found = stream(mechanism=MECHANISMS["queries"]).release(["ada"], ["DE"]).certificate["parameters"]
    assert (found["mu"], found["n_min"], found["draws"]) == ("0.5", 2000, 20)
    assert found["queries"] == {"kind": "ranges", "starts": [0, 1, 2], "stops": [1, 2, 3], "bins": 3}
    assert found["pool"] == {"kind": "multinomial", "size": 6500, "precision": 10_000, "seed": 0}


def test_long_columns_are_told_by_number_and_digest():
    """Every release repeats the parameters, so of many queries their number is told, and what tells them apart."""
    found = [dpi.Published(queries=q(100)).parameters["queries"] for q in (points, dyadic)]
    assert found[0]["starts"]["number"] == 100
    assert found[0]["starts"] != found[1]["starts"]
    assert len(json.dumps(found)) < 1000


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_page_shows_no_repr(mechanism):
    """What a report says of the newest certificate is words and numbers."""
    release = stream(mechanism=MECHANISMS[mechanism], name="visits").release(["ada"], ["DE"])
    html = page([release], title="Visits")
    shown = html[html.index("The newest certificate") :].partition("</section>")[0]
    text = re.sub(r"<[^>]*>", " ", shown)
    assert not REPR.search(text)
    assert "epsilon_total   1.0 " in text
    assert "stream   visits " in text


def test_certificates_survive_text_and_tables():
    """Their digests are those of the same text, wherever they went."""
    release = stream(mechanism=MECHANISMS["queries"]).release(["ada"], ["DE"])
    for again in (Release.from_json(release.to_json(), DOMAIN), *from_frame(to_frame([release]), DOMAIN)):
        assert again == release
        assert link_of(again.certificate) == link_of(release.certificate)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": 0.2}, "in two ways"),
        ({"epsilon_total": None}, "in two ways"),
        ({"format": 0}, "format"),
        ({"first": -1}, "another first slot"),
        ({"first": None}, "another first slot"),
    ],
)
def test_numbers_that_do_not_fit_are_found(monkeypatch, change, said):
    """A number that says something else than the exact amount, or an unknown format, is a problem."""
    store, facts = dpi.MemoryStore(), slot_closer.make_entry
    monkeypatch.setattr(slot_closer, "make_entry", lambda *given: facts(*given) | change)
    stream(store=store).release(["ada"], ["DE"])
    (problem,) = verify(store).problems
    assert said in problem


def test_a_chain_without_the_slot_that_its_stream_begins_with_is_found(monkeypatch):
    """Every slot is released from the declared one on: a chain whose first release is a later one lacks some."""
    store, facts = dpi.MemoryStore(), slot_closer.make_entry
    opened = stream(store=store, slot="1h", start="2026-01-01")
    later = {"slot": opened.next_slot + 1, "first": opened.next_slot + 1}
    monkeypatch.setattr(slot_closer, "make_entry", lambda *given: facts(*given) | later)
    opened.release(["ada"], ["DE"])
    assert "entry 1 does not release the slot that the stream begins with" in verify(store).problems


def test_entries_are_canonical():
    """The text of an entry is the one that its facts have, floats included."""
    store = dpi.MemoryStore()
    stream(store=store, mechanism=MECHANISMS["published"]).release(["ada"], ["DE"])
    assert all(canonical(link.entry) == link.text for link in store.links())


def test_a_signature_is_written_in_one_way(tmp_path):
    """Other letters for the same bytes are not what was signed: a bit of the store was turned over."""
    signer = dpi.Signer.open(tmp_path / "signing.pem")
    signature = signer.sign("digest")
    assert signer.verifier.verify("digest", signature)
    for other in (signature.upper(), f" {signature}", signature[:2] + " " + signature[2:]):
        assert not signer.verifier.verify("digest", other)
