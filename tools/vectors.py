"""Writes test vectors of certificates: tests/vectors/*.json, one for each way to be malformed.

    python tools/vectors.py

Each file is a chain as `GET /v1/chain` gives it, with what a verifier must find: `wrong_at` is the entry where the
chain goes wrong, null if it is whole. Entries after a change are linked and signed again, so that nothing else is wrong
with them. `sums` says that it takes the arithmetic of budgets by class, of quotas or of lost slots to find it. Releases
are made with noise: files that are there are not written anew.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import dpi
from dpi.budget import LogSquared
from dpi.certificates.chain import Link, canonical, text_digest
from dpi.certificates.signature import Signer, Verifier

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "vectors"
SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
OTHER = Signer(Ed25519PrivateKey.from_private_bytes(bytes(32)))
UNITS = 1 << 40
Facts = dict[str, Any]
Vector = tuple[str, str, list[Facts], int | None, bool]
"""Name, what it is about, entries, where it is wrong, and whether finding it takes sums."""


def released(*streams: Facts, slots: int = 3, store: dpi.MemoryStore | None = None) -> list[Facts]:
    """Return the entries of a store whose streams released some slots."""
    store = dpi.MemoryStore() if store is None else store
    made = [
        dpi.Stream(domain=dpi.Categories(["a", "b"]), epsilon=1, store=store, signer=SIGNER, **options)
        for options in streams
    ]
    for _ in range(slots):
        for stream in made:
            stream.release(["ada", "bob"], ["a", "b"])
    return [as_given(link) for link in store.links()]


def as_given(link: Link) -> Facts:
    """Return an entry as a service gives it."""
    return {"text": link.text, "digest": link.digest, "signature": link.signature}


def sealed(text: str, signer: Signer = SIGNER) -> Facts:
    """Return a text with the digest and the signature that belong to it."""
    digest = text_digest(text)
    return {"text": text, "digest": digest, "signature": signer.sign(digest)}


def linked(texts: list[Facts]) -> list[Facts]:
    """Return facts as entries that follow each other."""
    head, entries = "0" * 64, []
    for number, facts in enumerate(texts):
        entries.append(sealed(canonical({"format": 1, **facts, "sequence": number, "previous": head})))
        head = entries[-1]["digest"]
    return entries


def facts_of(entries: list[Facts]) -> list[Facts]:
    """Return what entries say, without their place in the chain."""
    said = [json.loads(each["text"]) for each in entries]
    return [{name: fact for name, fact in each.items() if name not in ("sequence", "previous")} for each in said]


def amount(name: str, units: int) -> Facts:
    """Return an amount of ε in both ways in which it is stated."""
    return {f"{name}_units": units, name: units / UNITS}


def vectors() -> Iterator[Vector]:
    """Make all of them."""
    plain = released({"name": "ä", "budget": dpi.Ledger(per_slot="0.1", policy=dpi.spend_first)})
    yield "whole", "three releases of a stream with accounts", plain, None, False
    yield "whole-ids", "a stream that says how ids are compared", plain, None, False
    yield "whole-empty", "a chain without an entry", [], None, False
    series = released({"budget": dpi.Converging(LogSquared())})
    yield "whole-series", "a stream whose budgets are a converging series", series, None, False
    by_class = released({}, slots=4)
    yield "whole-classes", "a stream whose users pay by class", by_class, None, False
    quota = {"name": "q", "budget": dpi.Ledger(quota="0.5", per_slot="0.1", policy=dpi.spend_first)}
    rest = {"name": "r", "budget": dpi.Ledger(per_slot="0.1", policy=dpi.spend_first)}
    quotas = released(quota, rest, slots=2)
    yield "whole-quotas", "two streams, one of which has half of ε for itself", quotas, None, False
    period = {"budget": dpi.Ledger(per_slot="0.4", period=2, policy=dpi.spend_first)}
    yield "whole-period", "accounts that are refilled after two slots", released(period, slots=5), None, False

    yield from texts(plain)
    yield from seals(plain)
    yield from statements(plain, series)
    yield from sums(by_class, quotas)
    yield from rotated(plain)


def texts(plain: list[Facts]) -> Iterator[Vector]:
    """Make entries that are wrong as texts, each with the digest and the signature that belong to it."""
    text = plain[2]["text"]
    said = json.loads(text)
    shuffled = json.dumps(dict(reversed(said.items())), ensure_ascii=False, separators=(",", ":"))
    for name, about, changed in (
        ("text-no-json", "it is no JSON", text[:-1]),
        ("text-no-object", "it is a list", f"[{text}]"),
        ("text-null", "it is null", "null"),
        ("text-space", "there is a space after a colon", text.replace('":', '": ', 1)),
        ("text-line-end", "there is a line end after it", text + "\n"),
        ("text-unsorted", "its keys are not sorted", shuffled),
        ("text-escaped", "a letter is escaped that need not be", text.replace("ä", "\\u00e4")),
        ("text-twice", "a key is there twice", text.replace('"kind"', '"kind":"release","kind"')),
        ("text-float", "a number has a needless zero", text.replace(f'"epsilon":{said["epsilon"]}', '"epsilon":0.10')),
        ("text-exponent", "a whole number has an exponent", text.replace('"format":1', '"format":1e0')),
    ):
        if changed == text:
            sys.exit(f"{name}: nothing was changed.")
        yield name, about, [*plain[:2], sealed(changed)], 2, False


def seals(plain: list[Facts]) -> Iterator[Vector]:
    """Make entries whose place, digest or signature is wrong."""
    one = plain[2]

    def with_(**changed: object) -> list[Facts]:
        return [*plain[:2], {**one, **changed}, *plain[3:]]

    flipped = "".join(reversed(one["signature"][:2])) + one["signature"][2:]
    yield "digest-wrong", "a digest of another text", with_(digest=plain[1]["digest"]), 2, False
    yield "digest-upper-case", "a digest in capital letters", with_(digest=one["digest"].upper()), 2, False
    yield "signature-missing", "an entry is not signed", with_(signature=None), 2, False
    yield "signature-wrong", "a signature with two letters exchanged", with_(signature=flipped), 2, False
    yield "signature-other", "signed with another key", with_(signature=OTHER.sign(one["digest"])), 2, False
    yield "signature-moved", "the signature of another entry", with_(signature=plain[1]["signature"]), 2, False
    yield "signature-upper-case", "a signature in capital letters", with_(signature=one["signature"].upper()), 2, False
    yield "entry-missing", "an entry was taken out", [*plain[:2], *plain[3:]], 2, False
    yield "entry-twice", "an entry is there twice", [*plain[:3], *plain[2:]], 3, False
    yield "entries-exchanged", "two entries changed places", [*plain[:2], plain[3], plain[2]], 2, False
    yield "beginning-missing", "the first entry was cut off", plain[1:], 0, False
    other = sealed(canonical({**json.loads(one["text"]), "previous": "f" * 64}))
    yield "previous-wrong", "an entry follows another one", [*plain[:2], other, *plain[3:]], 2, False
    number = sealed(canonical({**json.loads(one["text"]), "sequence": 7}))
    yield "sequence-wrong", "an entry has another number", [*plain[:2], number, *plain[3:]], 2, False


def statements(plain: list[Facts], series: list[Facts]) -> Iterator[Vector]:
    """Make entries that follow each other and state what cannot be."""
    base = facts_of(plain)
    options, release = base[0]["options"], base[2]

    def at(place: int, **changed: object) -> list[Facts]:
        return linked([*base[:place], {**base[place], **changed}, *base[place + 1 :]])

    def without(place: int, name: str) -> list[Facts]:
        left = {key: fact for key, fact in base[place].items() if key != name}
        return linked([*base[:place], left, *base[place + 1 :]])

    def declared(**changed: object) -> list[Facts]:
        more = {"kind": "options", "stream": base[0]["stream"], "options": {**options, **changed}}
        return linked([*base, more])

    yield "format-newer", "an entry of a newer format", at(2, format=2), 2, False
    yield "format-missing", "an entry states no format", at(2, format=None), 2, False
    yield "kind-unknown", "an entry of a kind that nobody knows", at(2, kind="gift"), 2, False
    yield "kind-missing", "an entry without a kind", without(2, "kind"), 2, False
    yield "options-no-object", "options that are a text", at(0, options="none"), 0, False
    yield "options-format-newer", "options of a newer format", at(0, options={**options, "format": 2}), 0, False
    fewer = {name: fact for name, fact in options.items() if name != "domain"}
    yield "options-field-missing", "options without a domain", at(0, options=fewer), 0, False
    yield (
        "options-field-unknown",
        "options with a field that nobody knows",
        at(0, options={**options, "x": 1}),
        0,
        False,
    )
    undeclared = linked([facts for facts in base if facts["kind"] != "options"])
    yield "stream-undeclared", "a release of a stream that was never declared", undeclared, 0, False
    yield "promise-changed", "a stream goes on with another ε", declared(epsilon_units=2 * UNITS), 4, False
    budget = {**options["budget"], "period": 5}
    yield "promise-refilled", "a stream goes on with accounts that are refilled", declared(budget=budget), 4, False
    exact = {name: fact for name, fact in options.items() if name != "ids"}
    more = {"kind": "options", "stream": base[0]["stream"], "options": exact}
    yield "ids-changed", "a stream goes on with ids that are compared otherwise", linked([*base, more]), 4, False
    beside = {"kind": "options", "stream": "z", "options": {**exact, "name": "z"}}
    yield "ids-other", "two streams of a ledger compare ids otherwise", linked([*base, beside]), 4, False
    folded = at(0, options={**options, "ids": "folded"})
    yield "ids-unknown", "ids are compared in a way that nobody knows", folded, 0, False
    past = linked([*base, {"kind": "options", "stream": base[0]["stream"], "options": options, "from": 1}])
    yield "options-of-the-past", "options change in slots that were released", past, 4, False
    stopped = {"kind": "options", "stream": base[0]["stream"], "options": {**options, "end": 3}, "from": 3}
    yield "whole-stopped", "a stream that was stopped", linked([*base, stopped]), None, False
    yield (
        "stopped-changed",
        "a stream that was stopped goes on",
        linked([*base, stopped, {**stopped, "from": 4}]),
        5,
        False,
    )
    yield "release-other-options", "a release with the digest of other options", at(2, options="0" * 64), 2, False
    yield "slot-missing", "a slot was left out", linked([*base[:2], *base[3:]]), 2, False
    yield "slot-twice", "a slot is released twice", linked([*base[:3], base[2], *base[3:]]), 3, False
    yield "slot-no-number", "a slot is a text", at(2, slot="2"), 2, False
    yield "first-wrong", "another first slot", at(2, first=1), 2, False
    yield "epsilon-negative", "a negative budget", at(2, **amount("epsilon", -1)), 2, False
    yield "epsilon-missing", "no budget", without(2, "epsilon_units"), 2, False
    yield "epsilon-two-ways", "ε for people is another one than the exact one", at(2, epsilon=0.2), 2, False
    yield "epsilon-whole-for-people", "ε for people is written as a whole number", at(2, epsilon_total=1), 2, False
    yield "total-wrong", "another total ε than was declared", at(2, **amount("epsilon_total", 2 * UNITS)), 2, False
    spent = release["epsilon_spent_units"]
    yield "spent-less", "less was spent than slots have cost", at(2, **amount("epsilon_spent", spent - 1)), 2, False
    yield "spent-more", "more was spent than slots have cost", at(2, **amount("epsilon_spent", spent + 1)), 2, False
    yield "quota-undeclared", "a quota that was not declared", at(2, **amount("epsilon_quota", UNITS // 2)), 2, False
    large = facts_of(series)
    over = [{**each, **amount("epsilon", UNITS // 2), **amount("epsilon_spent", min(UNITS, (n + 1) * UNITS // 2))}
            for n, each in enumerate(large[1:])]  # fmt: skip
    yield "series-overspent", "a series spends more than ε", linked([large[0], *over]), 3, False
    back = {"kind": "restored", "lost_head": "0" * 64, "lost_sequence": 9, "last": {base[0]["stream"]: 0},
            "spent_units": {base[0]["stream"]: spent}, "charged_units": {"": 0}}  # fmt: skip
    yield "restored-back", "a restored copy goes back behind what was released", linked([*base, back]), 4, False
    yield "restored-no-numbers", "a restored copy states texts", linked([*base, {**back, "last": {"": "x"}}]), 4, False


def rotated(plain: list[Facts]) -> Iterator[Vector]:
    """Make chains that go on under another key."""

    def signed(*signers: Signer) -> list[Facts]:
        return [{**each, "signature": signer.sign(each["digest"])} for each, signer in zip(plain, signers, strict=True)]

    old, new = SIGNER, OTHER
    yield "whole-rotated", "a chain goes on under a new key", signed(old, old, new, new), None, False
    yield "whole-rotated-at-once", "all entries are signed with the new key", signed(new, new, new, new), None, False
    yield "rotated-back", "the old key signs after the new one", signed(old, new, old, new), 2, False
    yield "rotated-not-yet", "no entry is signed with the new key", signed(old, old, old, old), 3, False


def sums(by_class: list[Facts], quotas: list[Facts]) -> Iterator[Vector]:
    """Make entries whose fault is found by computing budgets again."""
    base = facts_of(by_class)
    name, last = base[0]["stream"], base[-1]

    def changed(**facts: object) -> list[Facts]:
        return linked([*base[:-1], {**last, **facts}])

    classes = last["classes"]
    less = [{**classes[0], "share_steps": classes[0]["share_steps"] - 1}, *classes[1:]]
    at = len(base) - 1
    yield "classes-other-share", "a class has another share than its budget says", changed(classes=less), at, True
    yield "classes-unknown", "a class that no slot asks", changed(classes=[{**classes[0], "class": 99}]), at, True
    cheap = {key: fact for key, fact in last.items() if key != "classes"}
    yield "classes-left-out", "a stream by class measures all at once", linked([*base[:-1], cheap]), at, True
    gone = {"kind": "restored", "lost_head": "0" * 64, "lost_sequence": 9, "last": {name: last["slot"] + 2},
            "spent_units": {name: last["epsilon_spent_units"]}, "charged_units": {"": 0}}  # fmt: skip
    yield "restored-uncharged", "a restored copy charges nothing for lost slots", linked([*base, gone]), at + 1, True

    parts = facts_of(quotas)
    mine = next(each for each in parts if each["kind"] == "options" and each["stream"] == "q")
    grown = {**mine, "options": {**mine["options"], "budget": {**mine["options"]["budget"], "quota": "0.99"}}}
    shrunk = {**mine, "options": {**mine["options"], "budget": {**mine["options"]["budget"], "quota": "0.25"}}}
    yield "quota-not-there", "a quota grows by what others may have spent", linked([*parts, grown]), len(parts), True
    yield "quota-shrinks", "a quota becomes smaller", linked([*parts, shrunk]), len(parts), True
    other = next(place for place, each in enumerate(parts) if each["kind"] == "options" and each["stream"] == "r")
    stated = parts[other]["options"]
    wrong = {**parts[other], "options": {**stated, "budget": {**stated["budget"], "rest": UNITS}}}
    yield "rest-wrong", "a stream finds more in no quota than there is", linked([*parts[:other], wrong]), other, True
    large = {**parts[other], "options": {**stated, "epsilon_units": 2 * UNITS}}
    yield "ledger-other-epsilon", "two streams of a ledger have another ε", linked([*parts[:other], large]), other, True


def main() -> None:
    """Write what is not there."""
    warnings.simplefilter("ignore")
    FOLDER.mkdir(exist_ok=True)
    for name, about, entries, wrong_at, needs_sums in vectors():
        path = FOLDER / f"{name}.json"
        if path.exists() and "--anew" not in sys.argv:
            continue
        numbered = [{"entry": number, **entry} for number, entry in enumerate(entries)]
        ring = Verifier(OTHER.verifier.key, (SIGNER.verifier.key,)) if "rotated" in name else SIGNER.verifier
        vector = {
            "about": about,
            "wrong_at": wrong_at,
            "sums": needs_sums,
            "key": ring.pem(),
            "entries": numbered,
        }
        path.write_text(json.dumps(vector, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
