"""All routes of `/v1`, and their description as OpenAPI, made from the routes themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

from dpi._version import __version__
from dpi.service import _chart_routes, _read_routes, _write_routes  # noqa: F401 - whose routes these are
from dpi.service._endpoints import ENDPOINTS, TEXT, WHOLE, Call, Endpoint, Schema, route
from dpi.service.tokens import ANYBODY

__all__ = ["ENDPOINTS"]


@route("GET /v1/openapi.json", ANYBODY)
def get_openapi(call: Call) -> Schema:
    """All routes, as they are described here."""
    return describe(ENDPOINTS)


def describe(endpoints: Iterable[Endpoint]) -> Schema:
    paths: dict[str, dict[str, object]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe_one(endpoint)
    fields = {name: WHOLE if name == "status" else TEXT for name in ("type", "title", "status", "detail")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "dpi", "version": __version__, "description": "Releases of streams, by a public clock."},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": {"type": "object", "properties": fields, "required": [*fields]}},
        },
    }


def _describe_one(endpoint: Endpoint) -> dict[str, object]:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    in_query = [
        {"name": each.name, "in": "query", "description": each.says, "required": each.required, "schema": each.schema}
        for each in endpoint.parameters
    ]
    summary, _, more = (inspect.getdoc(endpoint.handler) or "").partition("\n\n")
    who = "anybody" if endpoint.roles is None else ", ".join(sorted(endpoint.roles))
    answer = {kind: {"schema": schema} for kind, schema in endpoint.answer.items()}
    operation: dict[str, object] = {
        "summary": summary,
        "description": " ".join([f"For {who}.", *more.split()]),
        "security": [] if endpoint.roles is None else [{"token": []}],
        "parameters": [*in_path, *in_query],
        "responses": {
            str(endpoint.status): {"description": "What was asked for.", "content": answer},
            "default": {"description": "Why not.", "content": problem},
        },
    }
    if endpoint.body:
        content = {kind: {"schema": schema} for kind, schema in endpoint.body.items()}
        operation["requestBody"] = {"required": True, "content": content}
    return operation
