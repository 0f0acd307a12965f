"""Asking witnesses to cosign the head of a chain (C2SP tlog-witness, `add-checkpoint`).

A witness gets the checkpoint and a proof that the tree which it saw last is its beginning. It keeps one tree for each
origin and cosigns only what goes on from it. So who has cut off or rewritten entries gets no cosignature.

**What becomes public, and why that is no more than releases.** A request holds the origin, the number of entries,
hashes of entries and a signature: a function of the chain, which is a function of releases and options. When it is
sent, the caller decides; let it be a public clock, as `cron` is, and not the end of a computation over events.
"""

from __future__ import annotations

import base64
import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from dpi.certificates.notes import Checkpoint, NoteKey, signatures_in
from dpi.certificates.policy import Cosigner
from dpi.certificates.tree import consistency_proof, root_hash
from dpi.errors import OptionError, StateError

PATIENCE = 20.0
"""Seconds that a witness may take to answer."""
LARGEST = 100_000
"""Bytes of an answer that are read."""
REFUSED = {
    400: "it cannot read the request",
    403: "it does not know the key of this chain: give it the line `log` of the policy",
    404: "it does not know this origin: give it the line `log` of the policy",
    409: "it has cosigned another chain of this length or a longer one: this chain was cut off or rewritten",
    422: "the entries that it saw are not the beginning of this chain: it was cut off or rewritten",
}


def check_goes_on(before: Checkpoint, keys: Sequence[NoteKey], leaves: Sequence[bytes]) -> None:
    """Raise `StateError` if a chain does not go on from the checkpoint that was signed last.

    Who signs two chains of one origin has a split view on record, so the second is not signed.
    """
    if all(before.time_signed(key) is None for key in keys):
        raise StateError("the checkpoint that is there was signed by another key or for another origin: move it away.")
    if before.size > len(leaves) or root_hash(leaves[: before.size]) != before.root:
        raise StateError(
            f"the chain does not go on from its last checkpoint of {before.size} entries: the store is an old copy, or "
            "another one. After a restored copy, publish under a new origin."
        )


def ask(witness: Cosigner, checkpoint: Checkpoint, leaves: Sequence[bytes], old: int) -> Checkpoint:
    """Return the checkpoint with a witness's cosignature; raise `StateError` if it gives none.

    `old` is the size that the witness is thought to have seen; where it is another one, it says so and is asked again.
    """
    status, answer = _post(witness, _request(checkpoint, leaves, old))
    if status == 409 and re.fullmatch(r"[0-9]{1,18}\n", answer) and int(answer) <= checkpoint.size:
        status, answer = _post(witness, _request(checkpoint, leaves, int(answer)))
    if status != 200:
        raise StateError(f"{witness.key.name} did not cosign: {REFUSED.get(status, f'it answered {status}')}.")
    try:
        cosigned = checkpoint.joined(
            each for each in signatures_in(answer) if each[:2] == (witness.key.name, witness.key.number)
        )
    except OptionError:
        cosigned = checkpoint
    if cosigned.time_signed(witness.key) is None:
        raise StateError(f"{witness.key.name} did not cosign: its answer holds no signature of its key.")
    return cosigned


def _request(checkpoint: Checkpoint, leaves: Sequence[bytes], old: int) -> bytes:
    proof = [base64.b64encode(each).decode() + "\n" for each in consistency_proof(leaves, old)]
    return f"old {old}\n{''.join(proof)}\n{checkpoint.note}".encode()


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirection: the policy says where a witness is."""


def _post(witness: Cosigner, body: bytes) -> tuple[int, str]:
    address = f"{(witness.address or '').rstrip('/')}/add-checkpoint"
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")):
        raise OptionError(f"the policy must give an https address of the witness {witness.key.name}.")
    request = urllib.request.Request(address, body, {"Content-Type": "text/plain; charset=utf-8"})  # noqa: S310 - above
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read(LARGEST).decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read(LARGEST).decode(errors="replace")
    except (OSError, ValueError):
        raise StateError(f"{witness.key.name} cannot be reached.") from None
