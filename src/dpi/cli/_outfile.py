"""The file that `run` hands releases out in: exactly those that the store holds for the period, each once.

The store is what survives a crash; the file is made from it. A text file (.ndjson, .jsonl) is made anew from the store
when a run begins, put in place whole, and then grows by a line for each release. A Parquet file cannot grow: it is made
when the run ends, also when it is interrupted. So after any crash the next run leaves the file that an uninterrupted
run would have left, byte by byte.

A file that is there is replaced only if no release is lost by it. A release says by its certificate which entry of
which chain it is, so each one in the file must be of the same stream of the same store, and in the period that the run
writes. What is decided here is public: certificates, names and periods.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from dpi.cli._errors import check_folder
from dpi.domain import Domain
from dpi.errors import OptionError, StateError
from dpi.events.slots import Slots
from dpi.files import draft_of, make_durable, put
from dpi.reader import Releases
from dpi.release import Release, from_frame, to_frame
from dpi.store import Store, open_store, store_exists

TEXT = (".ndjson", ".jsonl")
"""Suffixes of files with a line for each release."""
FORMS = (".parquet", *TEXT)
"""Suffixes of all files of releases."""
_ROWS = 64
"""Releases in memory at a time."""
_START = b'{"accumulated":'
"""How every release begins as text."""


@dataclass(frozen=True)
class OutFile:
    """The releases of one stream, from slot `first` to before `end`, as a file."""

    path: Path
    name: str
    slots: Slots
    first: int
    end: int | None

    def check_at(self, target: str, *, grows: bool) -> None:
        """Refuse a file before a store is opened for writing, so that a run that is refused makes and changes nothing.

        A store that cannot be read yet, because an older program has written it, is looked at when it is open.
        """
        if self.path.suffix not in FORMS:
            raise OptionError(f"`--out` must end in .parquet, .ndjson or .jsonl. Got {str(self.path)!r}.")
        check_folder(self.path, "--out")
        if grows and self.path.suffix not in TEXT:
            raise OptionError("a Parquet file cannot grow: with `--follow`, `--out` must end in .ndjson or .jsonl.")
        next(_certificates(self.path), None)  # refuses a file of something else, whatever the store is
        if not store_exists(target):
            self._check(None)
            return
        with suppress(StateError), open_store(target, read_only=True) as store:
            self._check(store)

    def _check(self, store: Store | None) -> None:
        """Refuse to replace a file that holds anything else; `store` is None if it is not there yet."""
        held: list[int] = []
        head = -1 if store is None else store.head().sequence
        for stream, slot, entry, digest in _certificates(self.path):
            known = store is not None and 0 <= entry <= head and store.link(entry).digest == digest
            if stream != self.name or not known:
                raise OptionError(
                    f"`--out` {str(self.path)!r} holds releases that are not of this stream of this store: it is not "
                    "replaced. Name another file, or move it away."
                )
            held.append(slot)
        if held and (min(held) < self.first or (self.end is not None and max(held) >= self.end)):
            begin, last = (self.slots.start(slot).isoformat() for slot in (min(held), max(held)))
            raise OptionError(
                f"`--out` {str(self.path)!r} holds the slots from {begin} to the one at {last}, and some of them lie "
                "outside `--from` … `--to`: it is not cut. Give a period that has them all, or another file."
            )

    @contextmanager
    def open(self, store: Store) -> Iterator[Callable[[Release], None]]:
        """Give what hands out a release that the store holds by now."""
        self._check(store)
        stored = Releases(store, self.name).between(self.first, self.end)
        if self.path.suffix not in TEXT:
            try:
                yield lambda release: None
            finally:
                self._write_table(iter(stored))
            return
        new, draft = not self.path.exists(), draft_of(self.path)
        with draft.open("w", encoding="utf-8") as file:

            def add(release: Release) -> None:
                file.write(release.to_json() + "\n")
                file.flush()

            for release in stored:
                add(release)
            make_durable(file.fileno())
            put(draft, self.path)
            try:
                yield add
            except BaseException:
                if new and self.path.stat().st_size == 0:
                    self.path.unlink()  # nothing was handed out
                raise
            finally:
                make_durable(file.fileno())

    def _write_table(self, releases: Iterator[Release]) -> None:
        """Write the releases as Parquet, some at a time: a year of a large domain need not fit in memory."""
        import polars as pl

        schema = None
        with TemporaryDirectory() as folder:
            for number in count():
                frame = to_frame(islice(releases, _ROWS))
                if frame.is_empty():
                    break
                schema = frame.schema if schema is None else schema
                frame.cast(schema).write_parquet(Path(folder, f"{number:09}.parquet"))
            if schema is not None:
                draft = draft_of(self.path)
                pl.scan_parquet(f"{folder}/*.parquet").sink_parquet(draft, row_group_size=_ROWS)
                put(draft, self.path)


def _certificates(path: Path) -> Iterator[tuple[str, int, int, str]]:
    """Stream, slot, entry and digest of each release in a file; a last line that a crash has cut is none.

    A file that was not written here, such as the events, or is damaged, is refused: it must not be lost.
    """
    import polars as pl

    if not path.exists():
        return
    foreign = OptionError(f"`--out` {str(path)!r} is there and holds no releases: it is not replaced.")
    certificates: Iterator[object]
    if path.suffix in TEXT:
        with path.open("rb") as file:
            if not _START.startswith(file.read(len(_START))):
                raise foreign
        certificates = _read_lines(path)
    else:
        try:
            if not {"slot", "pdf", "certificate"} <= pl.read_parquet_schema(path).keys():
                raise foreign
        except (pl.exceptions.PolarsError, OSError):
            raise foreign from None
        certificates = (_parse(str(text)) for text in pl.read_parquet(path, columns=["certificate"])["certificate"])
    for certificate in certificates:
        match certificate:
            case {"stream": str(stream), "slot": int(slot), "sequence": int(entry), "digest": str(digest)}:
                yield stream, slot, entry, digest
            case _:
                raise OptionError(f"`--out` {str(path)!r} is damaged, and it is not replaced: move it away.")


def _read_lines(path: Path) -> Iterator[object]:
    """Yield the certificate in each line, None where there is none; not of a last line without an end."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            release = _parse(line)
            if isinstance(release, dict):
                yield release.get("certificate")
            elif line.endswith("\n"):
                yield None


def _parse(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def read_releases(path: Path, domains: Sequence[Domain]) -> list[Release]:
    """Return the releases in such a file, each of one of the domains."""
    import polars as pl

    if path.suffix in TEXT:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [Release.from_json(line, *domains) for line in lines if line]
    try:
        return from_frame(pl.read_parquet(path), *domains)
    except pl.exceptions.PolarsError:
        raise OptionError(f"{path} is not a Parquet file of releases.") from None
