"""Blocks of pages that show a terminal: their commands, and what each is said to print."""

from __future__ import annotations

import re

NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")


def commands(text: str) -> list[tuple[str, str]]:
    """Each command of a console block with what it is said to print."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        here = re.match(r"[^\n]*<<'(\w+)'\n.*?^\1\n", part, re.MULTILINE | re.DOTALL)
        command = here[0] if here else re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)[0]
        found.append((command, part[len(command) :]))
    return found


def is_printed(shown: str, said: str, *, any_numbers: bool) -> bool:
    """Whether a page shows what a command said: `…` stands for any text, and a number for any number if that is so."""
    shown, said = " ".join(shown.split()), " ".join(said.split())
    if any_numbers:
        shown, said = NUMBER.sub("0", shown), NUMBER.sub("0", said)
    pattern = ".*?".join(re.escape(piece) for piece in re.split(r"\s*…\s*", shown))
    return re.fullmatch(pattern.replace(r"\ ", r"\s+"), said) is not None
