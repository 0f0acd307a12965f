"""`dpi keys`: a pair of keys for signing the chain, and what to do when a key was stolen or is due.

`dpi keys cosign` has the chain's head cosigned by witnesses; `dpi keys replace` replaces the ledger's key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpi.certificates.cosigning import ask, check_goes_on
from dpi.certificates.notes import Checkpoint, log_key, log_keys
from dpi.certificates.policy import Cosigner, Policy, with_witness
from dpi.certificates.signature import Signer, Verifier, create_pair
from dpi.certificates.tree import leaf_hash, root_hash
from dpi.cli._errors import FOUND
from dpi.cli.options import Json, KeyFile, StoreArgument, WitnessFile
from dpi.cli.output import address, answer, note
from dpi.cli.signals import Signals
from dpi.errors import OptionError, StateError
from dpi.files import write_file
from dpi.settings.declaration import Setting
from dpi.store import open_store
from dpi.store.key_change import replace_key
from dpi.store.opening import store_exists


def keys(
    private: Annotated[Path, Setting("FILE", "File for the private key.", argument=True)],
    after: Annotated[Path | None, Setting("FILE", "Public keys of a chain that continues under the new key.")] = None,
    json: Json = False,
) -> None:
    """Make a pair of Ed25519 keys: the private one, for its owner alone, signs; the public one checks.

    With --after the new key takes the place of an older one, which was stolen or is due: its public file then has all
    keys of the chain, and says which is the newest. `dpi keys cosign` has the head of a chain cosigned by witnesses.
    `dpi keys replace` replaces the ledger's key, by which a store names accounts.

    Examples:
      dpi keys signing.pem
      dpi keys signing-2027.pem --after signing.pub
      dpi keys replace visits.db
      dpi run … --config sign=signing.pem
      dpi verify visits.db --public-key signing.pub
    """
    verifier = create_pair(private, () if after is None else Verifier.open(after).keys)
    public = private.with_suffix(".pub")
    answer(
        json,
        {"private": str(private), "public": str(public), "fingerprint": verifier.fingerprint},
        f"{private}: keep it secret (its permissions are 600).",
        f"{public}: give it to readers who verify.",
        f"Its fingerprint (SHA-256): {verifier.fingerprint}",
    )


def cosign(
    store: StoreArgument,
    sign: Annotated[Path, Setting("FILE", "The private key that signs this chain.")],
    origin: Annotated[str, Setting("NAME", "Public name of the chain, such as example.com/visits.")],
    checkpoint: Annotated[Path, Setting("FILE", "File of the cosigned head; an existing one is continued.")],
    policy: Annotated[Path | None, Setting("FILE", "File that names the witnesses, and how many must cosign.")] = None,
    add: Annotated[
        str | None, Setting("WITNESS", "Add a witness to the policy: its key and its address, once it has cosigned.")
    ] = None,
    json: Json = False,
) -> None:
    """Sign the head of a store's chain and have witnesses cosign it. The exit code is 1 if too few do.

    Each witness remembers the longest chain of this name, and cosigns only what goes on from it. So readers who know
    the witnesses' keys find out if entries were cut off, or if others were shown another chain: `dpi verify STORE
    --witness visits.checkpoint --policy visits.policy`. Only the chain is read, which is public. Let a clock call it,
    such as cron. With --add the policy asks for one more witness from now on; a policy that is not there is made.

    Examples:
      dpi keys cosign visits.db --sign signing.pem --origin example.com/visits --checkpoint visits.checkpoint
      dpi keys cosign visits.db … --policy visits.policy --add "witness.example/a+8d66cf3f+BC… https://witness.example/a"
      dpi keys cosign visits.db … --checkpoint visits.checkpoint --policy visits.policy
    """
    if not sign.exists():
        raise OptionError(f"there is no key {sign}: `dpi keys {sign}` makes one.")
    signer = Signer.open(sign)
    leaves = _leaves(store)
    made = Checkpoint.of_chain(origin, len(leaves), root_hash(leaves)).signed(signer)
    key = log_key(origin, signer)
    new, text = None if add is None else Cosigner.from_text(add), ""
    if new is not None:
        if policy is None:
            raise OptionError("`--add` needs `--policy`: the file to which the witness is added.")
        text = with_witness(policy.read_text() if policy.exists() else "", key, new)
    asked = Policy.from_text(text) if text else None if policy is None else Policy.open(policy)
    if asked is not None and key not in asked.logs:
        raise OptionError(f"the policy does not know this key and origin: add the line `log {key.text}`.")
    before = _read(checkpoint)
    if before is not None:
        check_goes_on(before, log_keys(origin, signer), leaves)
    if asked is not None:
        made = _collect(asked, made, leaves, before)
    times = {} if asked is None else asked.cosigned(made)
    if new is not None and policy is not None:
        if new.key.name not in times:
            raise StateError(f"{policy} stays as it was. The operator of the witness needs the line `log {key.text}`.")
        write_file(policy, text.encode(), mode=0o666)
    enough = asked is None or asked.reached(times)
    if enough:
        write_file(checkpoint, made.note.encode(), mode=0o666)
    answer(
        json,
        {"entries": made.size, "key": key.text, "cosigned": times, "published": enough},
        f"{made.size} entries, signed as {key.text}",
        f"Cosigned by {', '.join(times) or 'nobody'}.",
        f"{checkpoint} is published." if enough else f"Too few: {checkpoint} stays as it was.",
    )
    if not enough:
        raise typer.Exit(FOUND)


def _leaves(store: str) -> list[bytes]:
    """Return the hashes of a chain's entries, of which there is one at least."""
    with open_store(store, read_only=True) as opened, opened.snapshot():
        leaves = [leaf_hash(link.text) for link in opened.links()]
    if not leaves:
        raise OptionError("the chain of this store has no entry yet.")
    return leaves


def _collect(policy: Policy, made: Checkpoint, leaves: list[bytes], before: Checkpoint | None) -> Checkpoint:
    """Return a checkpoint with the signatures of the witnesses that gave one; say why the others did not."""
    for name, witness in policy.witnesses.items():
        seen = before is not None and before.time_signed(witness.key) is not None
        try:
            made = ask(witness, made, leaves, before.size if before is not None and seen else 0)
        except StateError as error:
            note(f"{name}: {error}")
    return made


def replace(store: StoreArgument, witness: WitnessFile = None, key_file: KeyFile = None, json: Json = False) -> None:
    """Replace the ledger's key: name all accounts and events of open slots of a store anew. No budget changes.

    Stop the service first: a store that another process writes to is refused. The key file then holds one more key, and
    only together do its keys open the store, so keep a new copy of it. After an interruption, run the command again.
    Copies of the store that were made before can be read with the old key for ever: back up anew, and destroy them.

    Examples:
      dpi keys replace visits.db
      dpi keys replace "postgresql:///visits" --key-file /etc/dpi/key --witness /mnt/elsewhere/visits.witness
    """
    if not store_exists(store):
        raise OptionError(f"there is no store at {address(store)}.")
    with Signals():
        path, number = replace_key(store, key_file=key_file, witness=witness)
    answer(
        json,
        {"store": address(store), "key_file": str(path), "keys": number},
        f"{address(store)}: accounts and events of open slots have new names. No budget has changed.",
        f"{path} holds {number} keys: copy it to where you keep secrets. Earlier copies no longer open the store.",
    )
    if not json:
        note("copies of the store from before can be read with the old key: make a new backup, and destroy them.")


def _read(path: Path) -> Checkpoint | None:
    """Return the checkpoint that was published last, if there is one."""
    try:
        return Checkpoint.from_note(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise OptionError(f"{path} is no checkpoint.") from None
