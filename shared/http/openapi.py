"""OpenAPI 3.1 documents: what FastAPI leaves out, and the union of several services' documents.

Routes refer to one `Problem` schema and to one `bearer` security scheme; both are added here once. `merged` gives the
document of a whole origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fastapi import FastAPI

PROBLEM_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "request_id", "errors"],
    "properties": {
        "type": {"type": "string", "format": "uri", "description": "stable for each code"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what is wrong and what would be right"},
        "code": {"type": "string", "description": "stable, for programs"},
        "request_id": {"type": "string", "description": "under which the service's log speaks of this request"},
        "current": {"type": "integer", "description": "present version, where a conflict is about one"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "code", "message"],
                "properties": {
                    "pointer": {"type": "string", "description": "JSON pointer into the body, or /query/<name>"},
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                },
            },
        },
    },
}
BEARER_SCHEME: Final = {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}


def complete(app: FastAPI) -> None:
    """Let `app.openapi()` carry the shared components."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        components = document.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = PROBLEM_SCHEMA
        components.setdefault("securitySchemes", {})["bearer"] = BEARER_SCHEME
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # the way FastAPI documents for extending it


def merged(documents: Iterable[dict[str, Any]], title: str) -> dict[str, Any]:
    """One document with the paths and schemas of all."""
    union: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "v1"},
        "paths": {},
        "components": {"schemas": {}, "securitySchemes": {"bearer": BEARER_SCHEME}},
    }
    for document in documents:
        union["paths"].update(document.get("paths", {}))
        _add_schemas(union["components"]["schemas"], document.get("components", {}).get("schemas", {}))
    return union


def _add_schemas(union: dict[str, Any], schemas: dict[str, Any]) -> None:
    for name, schema in schemas.items():
        if union.setdefault(name, schema) != schema:
            raise ValueError(f"two services mean different things by the schema {name}; rename one of the models")
