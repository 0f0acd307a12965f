"""The description of all routes as OpenAPI, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.responses import Response

from dpi._version import __version__
from dpi.service.endpoints import Call, Endpoint, Schema, document

_PROBLEM: Schema = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}


async def get_openapi(call: Call) -> Response:
    """What there is."""
    from dpi.service.routes import ENDPOINTS

    return document(described(ENDPOINTS))


def described(endpoints: Iterable[Endpoint]) -> Schema:
    """An OpenAPI 3.1 document."""
    paths: dict[str, dict[str, object]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "dpi", "version": __version__, "description": "Releases of streams, by a public clock."},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": _PROBLEM},
        },
    }


def _operation(endpoint: Endpoint) -> dict[str, object]:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    in_query = [
        {"name": each.name, "in": "query", "description": each.says, "required": each.required, "schema": each.schema}
        for each in endpoint.parameters
    ]
    who = "anybody" if endpoint.roles is None else ", ".join(sorted(endpoint.roles))
    found: dict[str, object] = {
        "summary": endpoint.summary,
        "description": f"For {who}.",
        "security": [] if endpoint.roles is None else [{"token": []}],
        "parameters": [*in_path, *in_query],
        "responses": {
            str(endpoint.status): {
                "description": "What was asked for.",
                "content": {kind: {"schema": schema} for kind, schema in endpoint.answer.items()},
            },
            "default": {"description": "Why not.", "content": problem},
        },
    }
    if endpoint.body:
        content = {kind: {"schema": schema} for kind, schema in endpoint.body.items()}
        found["requestBody"] = {"required": True, "content": content}
    return found
