"""Whose signatures a checkpoint needs: a policy file in the format of C2SP (tlog-policy).

    log example.com/visits+1b6e…+AT…
    witness A witness.example/a+8d66cf3f+BC… https://witness.example/a
    witness B other.example/b+51f0a9c2+BE… https://other.example/b
    group both all A B
    quorum both

It lists the keys of who publishes the chain and of the witnesses, and how many of them must have cosigned. Addresses
are for who asks witnesses (`dpi keys cosign`); a reader needs none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dpi.certificates.notes import COSIGNED, SIGNED, Checkpoint, NoteKey
from dpi.errors import OptionError

ALL = "all-witnesses"
"""The group of a policy to which witnesses were added."""


@dataclass(frozen=True)
class Cosigner:
    """A witness: its key and, for who asks it, its address."""

    key: NoteKey
    address: str | None = None

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the witness of what its operator gives: its key and its address, with a space between them."""
        key, *address = text.split()
        if len(address) != 1 or (note_key := NoteKey.from_text(key)).kind != COSIGNED:
            raise OptionError("a witness is its key (of type 4) and its https address, as in `NAME+ID+KEY https://…`.")
        return cls(note_key, *address)


@dataclass(frozen=True)
class Policy:
    """Keys of logs and witnesses, and the quorum."""

    logs: tuple[NoteKey, ...]
    witnesses: Mapping[str, Cosigner]
    groups: Mapping[str, tuple[int, tuple[str, ...]]]
    """By name how many of which members, witnesses or groups, must have cosigned."""
    quorum: str

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the policy of a file; raise `OptionError` if it is none."""
        try:
            return cls.from_text(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise OptionError(f"{path} cannot be read: {error.strerror}.") from None
        except ValueError:
            raise OptionError(f"{path} is no text.") from None

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the policy of a text; raise `OptionError`, which names the line, if it is none."""
        logs: list[NoteKey] = []
        witnesses: dict[str, Cosigner] = {}
        groups: dict[str, tuple[int, tuple[str, ...]]] = {}
        quorum, used = None, set[str]()
        for number, line in enumerate(text.split("\n"), 1):
            words = re.split(r"[ \t]+", line.strip(" \t"))
            known = witnesses.keys() | groups.keys()
            match words:
                case [""]:
                    pass
                case [first, *_] if first.startswith("#"):
                    pass
                case ["log", key] | ["log", key, _]:
                    logs.append(_key(key, SIGNED, number))
                    if len({each.key for each in logs}) < len(logs):
                        raise _wrong(number, "two logs have one key")
                case ["witness", name, key, *address] if len(address) < 2 and name not in {*known, "none"}:
                    cosigner = Cosigner(_key(key, COSIGNED, number), *address)
                    if cosigner.key.key in [each.key.key for each in witnesses.values()]:
                        raise _wrong(number, "two witnesses have one key")
                    witnesses[name] = cosigner
                case ["group", name, count, *members] if name not in {*known, "none"} and members:
                    least = {"any": "1", "all": str(len(members))}.get(count, count)
                    whole = re.fullmatch("[1-9][0-9]*", least) and int(least) <= len(members)
                    if not whole or not {*members} <= known or used & {*members} or len({*members}) < len(members):
                        raise _wrong(
                            number, "a group needs members that stand above it, each in one group, and how many"
                        )
                    used |= {*members}
                    groups[name] = int(least), tuple(members)
                case ["quorum", name] if quorum is None and name in {*known, "none"}:
                    quorum = name
                case _:
                    raise _wrong(number, "it must be log, witness, group or quorum, of names that stand above it")
        if quorum is None:
            raise OptionError("the policy has no line `quorum`: it must say which witnesses have to sign.")
        return cls(tuple(logs), witnesses, groups, quorum)

    def origin_signed(self, checkpoint: Checkpoint) -> bool:
        """Return whether a log of the policy has signed, in the name that the checkpoint states."""
        return any(key.name == checkpoint.origin and checkpoint.time_signed(key) is not None for key in self.logs)

    def cosigned(self, checkpoint: Checkpoint) -> dict[str, int]:
        """Return the witnesses that have cosigned, by the policy's names, and when, in seconds since 1970."""
        times = {name: checkpoint.time_signed(each.key) for name, each in self.witnesses.items()}
        return {name: time for name, time in times.items() if time is not None}

    def reached(self, cosigned: Mapping[str, int]) -> bool:
        """Return whether these witnesses are enough."""
        return self.quorum == "none" or self._has(self.quorum, cosigned)

    def _has(self, name: str, cosigned: Mapping[str, int]) -> bool:
        if name in self.witnesses:
            return name in cosigned
        least, members = self.groups[name]
        return sum(self._has(member, cosigned) for member in members) >= least


def with_witness(text: str, log: NoteKey, witness: Cosigner) -> str:
    """Return the text of a policy with a log's key and one more witness, and with a quorum of all witnesses.

    Raises `OptionError` if the policy asks for something else than all of them: that is for its author to change.
    """
    known = Policy.from_text(text) if text.strip() else Policy((), {}, {}, "none")
    everybody = dict.fromkeys(known.witnesses, 0)
    if known.witnesses and (
        any(known.reached({n: 0 for n in everybody if n != name}) for name in everybody) or not known.reached(everybody)
    ):
        raise OptionError(
            "the policy asks for some of its witnesses and not for all: write the lines of a further one by hand."
        )
    if witness.key.name in known.witnesses:
        raise OptionError(f"the witness {witness.key.name} is in the policy already.")
    lines = [line for line in text.splitlines() if line.split()[:1] not in (["group"], ["quorum"])]
    if log not in known.logs:
        lines.append(f"log {log.text}")
    name = witness.key.name
    lines.append(f"witness {name} {witness.key.text} {witness.address}")
    lines += [f"group {ALL} all {' '.join([*everybody, name])}", f"quorum {ALL}"]
    made = "\n".join(lines) + "\n"
    Policy.from_text(made)  # refuses a key that is there under another name
    return made


def _key(text: str, kind: int, line: int) -> NoteKey:
    key = NoteKey.from_text(text)
    if key.kind != kind:
        raise _wrong(line, "a log signs with a key of type 1, a witness with one of type 4")
    return key


def _wrong(line: int, why: str) -> OptionError:
    return OptionError(f"line {line} of the policy cannot be read: {why}.")
