"""Routes that read what is public: streams, domains, releases and their certificates.

All of it is a function of what was declared and released, and of the public clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice

from starlette.responses import Response

from dpi.certificates.declared import DeclaredOptions, declared
from dpi.errors import StateError
from dpi.reader import Releases
from dpi.release import Release
from dpi.service.endpoints import JSON, Call, document, where
from dpi.service.problems import Problem

LINES = "application/x-ndjson"
MOST_RELEASES = 1000
MOST_BINS = 1 << 20
"""Bins of all releases of one answer; one release is always given."""
FOR_EVER = {"cache-control": "private, max-age=31536000, immutable"}
"""A release never changes."""


async def get_token(call: Call) -> Response:
    """What the token of this request is for."""
    return document({"role": str(call.request.state.by).partition(" ")[0]})


async def get_streams(call: Call) -> Response:
    """The streams that there are."""

    def read() -> list[dict[str, object]]:
        with call.service.reading.store() as store:
            known = sorted(declared(store.streams()).items())
            return [{"name": name, "options": options.stated} for name, options in known if not options.discovers]

    return document({"streams": await call.read(read)})


async def get_stream(call: Call) -> Response:
    """What a stream is: its options, its promise, its clock, and how far it is."""
    service, name = call.service, call.stream

    def read() -> dict[str, object]:
        with service.reading.releases(name) as releases:
            options = DeclaredOptions.from_text(releases.store.streams()[name])
            found = releases.store.extent(name, None, releases._last)
            slots = options.slots
            first, newest = (None, None) if found is None else found[1:]
            following = newest + 1 if newest is not None else options.start
            clock = None
            if slots is not None and following is not None and options.end is None:
                clock = {
                    "next": following,
                    "begins": slots.start(following).isoformat(),
                    "closes": service.publication.moment(slots.closing(following)),
                    "seen": service.publication.moment(slots.closing(following) + service.publication.delay),
                }
            return {
                "name": name,
                "options": options.stated,
                "domain": options.domain,
                "epsilon": float(options.epsilon),
                "guarantee": service.guarantees[name],
                "first": first,
                "newest": newest,
                "clock": clock,
            }

    return document(await call.read(read))


async def get_extent(call: Call) -> Response:
    """How many releases of slots from `first` to before `end` there are, and the first and last slot."""
    name, first, end = call.stream, call.where("first"), call.where("end")

    def read() -> tuple[int, int | None, int | None]:
        with call.service.reading.releases(name) as releases:
            asked = releases.between(first, end)
            return asked.store.extent(name, asked._first, asked._last) or (0, None, None)

    return document(dict(zip(("number", "first", "last"), await call.read(read), strict=True)))


async def get_domain(call: Call) -> Response:
    """A domain by its digest: what values there are."""
    digest = str(call.request.path_params["digest"])

    def read() -> str:
        with call.service.reading.store() as store:
            try:
                return store.domain(digest)
            except StateError:
                raise Problem(404, "there is no such domain.") from None

    return Response(await call.read(read), headers=FOR_EVER, media_type=JSON)


async def get_releases(call: Call) -> Response:
    """Releases of slots from `first` to before `end`, or of those after `since`, some at a time."""
    name, since = call.stream, call.whole("since")
    first, end = call.where("first"), call.where("end")
    limit = call.whole("limit", MOST_RELEASES, 1, MOST_RELEASES)
    lines = call.request.headers.get("accept", "").partition(";")[0].strip() == LINES
    if since is not None and first is not None:
        raise Problem(422, "`since` and `first` say the same: leave one of them out.")

    def read() -> tuple[list[bytes], int | None]:
        with call.service.reading.releases(name) as releases:
            asked = releases.between(since + 1 if since is not None else first, end)
            size = max(1, _bins(asked))
            most = min(limit or MOST_RELEASES, max(1, MOST_BINS // size))
            taken = list(islice(asked, most))
            more = bool(taken) and len(asked.between(taken[-1].slot + 1, None)) > 0
            return [release.to_json().encode() for release in taken], taken[-1].slot if more else None

    found, last = await call.read(read)
    following = {} if last is None else {"link": f'<{_next(call, last)}>; rel="next"'}
    if lines:
        return Response(b"".join(each + b"\n" for each in found), headers=following, media_type=LINES)
    more = b"null" if last is None else str(last).encode()
    body = b'{"releases":[' + b",".join(found) + b'],"more_since":' + more + b"}"
    return Response(body, headers=following, media_type=JSON)


async def get_release(call: Call) -> Response:
    """The release of a slot: by its number, by a time that lies in it, or the newest."""
    release = await _one(call)
    return Response(await call.read(release.to_json), headers=_lasting(call), media_type=JSON)


async def get_certificate(call: Call) -> Response:
    """What a release says of itself in fields that can be checked."""
    release = await _one(call)
    text = json.dumps(release.certificate, sort_keys=True, ensure_ascii=False)
    return Response(text, headers=_lasting(call), media_type=JSON)


async def _one(call: Call) -> Release:
    name, slot = call.stream, str(call.request.path_params["slot"])

    def read() -> Release:
        with call.service.reading.releases(name) as releases:
            return release_at(releases, slot)

    return await call.read(read)


def release_at(releases: Releases, text: str) -> Release:
    """The release of a slot that a text names; refuses one that is not seen."""
    place = "newest" if text == "newest" else where(text)
    if place == "newest":
        if not len(releases):
            raise Problem(404, "no slot of this stream has been released yet.")
        return releases.newest
    number = place if isinstance(place, int) else releases.slots.number(place)
    for release in releases.between(number, number + 1):
        return release
    raise Problem(404, "there is no release of this slot, or not yet.")


def _lasting(call: Call) -> dict[str, str]:
    return {} if call.request.path_params["slot"] == "newest" else FOR_EVER


def _bins(releases: Iterable[Release]) -> int:
    return next((release.pdf.size for release in releases), 0)


def _next(call: Call, last: int) -> str:
    url = call.request.url.remove_query_params("first").include_query_params(since=last)
    return f"{url.path}?{url.query}"
