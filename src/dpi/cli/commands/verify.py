"""`dpi verify`: whether a store, or releases that were handed out, are what their certificates say."""

from __future__ import annotations

import json as json_values
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from dpi._version import installed_plugins
from dpi.certificates.declared import DeclaredOptions, name_stream
from dpi.certificates.notes import Checkpoint
from dpi.certificates.policy import Policy
from dpi.certificates.signature import Verifier
from dpi.cli._errors import FOUND
from dpi.cli._outfile import FORMS, read_releases
from dpi.cli.options import Json, KeyFile, PublicKey
from dpi.cli.output import document, say, table
from dpi.domain import Domain
from dpi.domain.file import from_description
from dpi.errors import OptionError, StateError
from dpi.settings.declaration import Setting
from dpi.settings.domains import DomainSettings
from dpi.store import Store, open_store
from dpi.store.witness import Seen, Witness
from dpi.verification import Verification, check_accounts
from dpi.verification import verify as verify_store
from dpi.verification.releases import verify_releases
from dpi.verification.result import Restored


def verify(
    target: Annotated[str, Setting("STORE|FILE", "A store, or a file of releases.", argument=True)],
    curator: Annotated[bool, Setting("", "Also check that no account exceeds ε; needs the ledger's key.")] = False,
    key_file: KeyFile = None,
    public_key: PublicKey = None,
    witness: Annotated[
        Path | None, Setting("FILE", "The chain must hold what this witness saw: its file, or a cosigned checkpoint …")
    ] = None,
    policy: Annotated[Path | None, Setting("FILE", "… with the signatures that this policy asks for.")] = None,
    domain: Annotated[
        list[Path] | None, Setting("FILE", "Of a file of releases: its domain, or each that it has had …")
    ] = None,
    other: Annotated[str | None, Setting("NAME", "… with this bin for what is not listed,")] = None,
    store: Annotated[str | None, Setting("STORE", "… or the store they were made from.")] = None,
    json: Json = False,
) -> None:
    """Recompute the chain of certificates and its sums. The exit code is 1 if anything is wrong.

    Anyone can do this: only public bytes are read. Of a file of releases it says which entries of the chain it saw, and
    what is missing; what was cut off at the end only the store or a witness can tell. With --curator the accounts are
    checked, too; what is then found is private. The plug-ins are those of this installation, which need not be the
    publisher's: their code runs with the rights of the program.

    Examples:
      dpi verify visits.db
      dpi verify visits.db --public-key signing.pub --witness /mnt/elsewhere/visits.witness
      dpi verify public.db --witness visits.checkpoint --policy visits.policy
      dpi verify visits.db --curator --key-file visits.db.key
      dpi verify releases.parquet --domain countries.txt
      dpi verify releases.parquet --domain before.txt --domain after.txt
    """
    verifier = None if public_key is None else Verifier.open(public_key)
    of_file = Path(target).suffix in FORMS
    asked = None if policy is None else Policy.open(policy)
    checkpoint = None if asked is None else _checkpoint(witness)
    seen = _seen(witness) if checkpoint is None else None
    if of_file:
        if curator or asked is not None:
            raise OptionError(f"`{'--curator' if curator else '--policy'}` is for a store.")
        if not Path(target).exists():
            raise OptionError(f"there is no file {target}.")
        result = _file(Path(target), verifier, seen, domain, other, store)
    else:
        with open_store(target, read_only=True, curator=curator, key_file=key_file) as opened:
            result = verify_store(opened, verifier=verifier, seen=seen, checkpoint=checkpoint, policy=asked)
            if curator:
                problems = (*result.problems, *check_accounts(opened))
                result = replace(result, problems=problems, accounts_checked=True)
    cosigned = {} if asked is None or checkpoint is None else asked.cosigned(checkpoint)
    if json:
        plain = {"intact": result.intact, "whole": result.whole, **asdict(result)}
        plain["slots"] = {name: [span["first"], span["last"]] for name, span in plain.pop("spans").items()}
        plain |= {f"epsilon_{name}": plain.pop(name) for name in ("spent", "spent_by_all")}
        plain["plugins"] = [plugin._asdict() for plugin in installed_plugins()]
        if checkpoint is not None:
            plain["checkpoint"] = {"origin": checkpoint.origin, "entries": checkpoint.size, "cosigned": cosigned}
        document(plain)
    else:
        _print(result, of_store=not of_file)
        if checkpoint is not None:
            _print_cosigned(checkpoint, cosigned, result.entries)
    if not result.intact:
        raise typer.Exit(FOUND)


def _file(
    path: Path,
    verifier: Verifier | None,
    seen: Seen | None,
    domain: list[Path] | None,
    other: str | None,
    store: str | None,
) -> Verification:
    """Return what a file of releases shows, by itself or beside the store it was made from."""
    if bool(domain) == (store is not None):
        raise OptionError("to read a file of releases, give its `--domain`, or the `--store` it was made from.")
    with nullcontext() if store is None else open_store(store, read_only=True) as opened:
        if opened is None:
            domains = [DomainSettings(domain=each, other=other).read() for each in domain or ()]
        else:
            domains = _domains(opened)
        try:
            return verify_releases(read_releases(path, domains), verifier=verifier, store=opened, seen=seen)
        except StateError as error:
            return Verification(0, "", (str(error),))


def _domains(store: Store) -> list[Domain]:
    """Return all domains that the streams of a store have had, as its chain declares them."""
    declared = [link.entry["options"] for link in store.links() if link.entry.get("kind") == "options"]
    digests = dict.fromkeys(DeclaredOptions.from_options(options).domain for options in declared)
    return [from_description(json_values.loads(store.domain(digest))) for digest in digests]


def _checkpoint(path: Path | None) -> Checkpoint:
    """Return the checkpoint of a file."""
    if path is None:
        raise OptionError("`--policy` needs `--witness`: the checkpoint whose signatures it asks for.")
    try:
        return Checkpoint.from_note(path.read_text())
    except FileNotFoundError:
        raise OptionError(f"there is no checkpoint {path}.") from None
    except ValueError:
        raise OptionError(f"{path} is no checkpoint.") from None


def _print_cosigned(checkpoint: Checkpoint, cosigned: dict[str, int], entries: int) -> None:
    """Say who has cosigned, when, and how many entries came later."""
    times = [f"{name} at {datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC" for name, time in cosigned.items()]
    later = entries - checkpoint.size
    rest = f"; {later} later entries are in no checkpoint yet" if later > 0 else ""
    table(["", ""], [["cosigned", f"{checkpoint.size} entries by {', '.join(times) or 'nobody'}{rest}"]], left=2)


def _seen(witness: Path | None) -> Seen | None:
    """Return what a witness saw."""
    if witness is None:
        return None
    try:
        seen = Witness(witness).read()
    except StateError:
        if _is_checkpoint(witness):
            raise OptionError(
                f"{witness} is a checkpoint, as `dpi keys cosign` writes it, and no store's witness: give `--policy` "
                "too, the file that names its signers."
            ) from None
        raise
    if seen is None:
        raise OptionError(f"there is no witness {witness}.")
    return seen


def _is_checkpoint(path: Path) -> bool:
    """Return whether a file can be read as a checkpoint."""
    try:
        return bool(Checkpoint.from_note(path.read_text(encoding="utf-8", errors="replace")))
    except OptionError:
        return False


def _print(result: Verification, *, of_store: bool) -> None:
    good = "The releases that were seen are consistent."
    if of_store:
        good = "The chain is whole." + ("" if result.whole else " Releases are missing, and cannot be checked.")
    say(good if result.intact else "Something is wrong:", *(f"  {problem}" for problem in result.problems))
    seen = f"{result.entries}, entries {result.first_entry} … {result.last_entry}" if result.entries else "none"
    facts: list[list[object]] = [["certificates", seen + " of the chain"], ["head", result.head or "–"]]
    for name, span in result.spans.items():
        numbers = f"{span.first} … {span.last}"
        times = f"{span.first_start} … {span.last_start} ({numbers})" if span.first_start else numbers
        facts.append([f"slots, {name_stream(name)}", times])
    facts.append(["missing", "; ".join(result.missing) or _nothing(result, of_store)])
    facts += [["restored", _restored(each)] for each in result.restored]
    if not result.end_known:
        needed = "a witness (--witness)" if of_store else "a store or a witness (--store, --witness)"
        facts.append(["after the end", f"later entries may have been cut off: {needed} would detect it"])
    if result.signed is not None:
        facts.append(["signatures", "all are of this key" if result.signed else "not all are of this key"])
    if of_store:
        facts.append(["accounts", "checked (private)" if result.accounts_checked else "not checked (the curator can)"])
    facts.append(["plug-ins here", _plugins()])
    facts += [
        [f"measurements, {name_stream(name)}", f"of slots before {slot} dropped by a rule; releases are as certified"]
        for name, slot in result.thinned.items()
    ]
    facts += [
        [f"spent by {name_stream(name)}", f"at most {spent:.6g} per user"] for name, spent in result.spent.items()
    ]
    if len(result.spent) > 1 and result.spent_by_all is not None:
        facts.append(["spent by all of them", f"at most {result.spent_by_all:.6g} per user"])
    table(["", ""], facts, left=2)


def _nothing(result: Verification, of_store: bool) -> str:
    """Return what can be said where nothing is known to be missing."""
    if not result.entries:
        return "–"
    if of_store or result.first_entry == 0:
        return "nothing from the first entry on"
    unseen = f"entries 0 … {result.first_entry - 1} are not seen"
    return f"no release of these streams; {unseen} (options, other streams)"


def _plugins() -> str:
    """Which plug-ins are installed where this runs, by the package that brings them."""
    brought: dict[str, list[str]] = {}
    for plugin in installed_plugins():
        brought.setdefault(f"{plugin.distribution} {plugin.version}", []).append(plugin.name)
    return "; ".join(f"{', '.join(names)} ({package})" for package, names in brought.items()) or "no plug-ins"


def _restored(each: Restored) -> str:
    """Return what an entry says of a copy that went on."""
    lost = "" if each.lost_entry is None else f" The chain that was lost ended with entry {each.lost_entry}."
    charged = ", ".join(f"{amount:.6g}" for amount in each.charged.values())
    told = f" Every account was charged for the lost slots, new ones too ({charged})." if charged else ""
    return f"from an older copy, by entry {each.entry}.{told}{lost}"
