"""Refusals of the API server, as `Status` objects with the codes, reasons and sentences of the real one."""

from __future__ import annotations

from tests.support.kubernetes.resources import Json, Resource


class ApiError(Exception):
    """What is answered instead of an object."""

    def __init__(self, code: int, reason: str, message: str, retry_after_s: int | None = None, **details: object):
        super().__init__(message)
        self.code, self.reason, self.message, self.retry_after_s = code, reason, message, retry_after_s
        self.details = details
        self.metadata: Json = {}

    def status(self) -> Json:
        details = dict(self.details)
        if self.retry_after_s is not None:
            details["retryAfterSeconds"] = self.retry_after_s
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": self.code,
        }


def _named(resource: Resource, name: str) -> Json:
    return {"name": name, **({"group": resource.group} if resource.group else {}), "kind": resource.plural}


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', **_named(resource, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> ApiError:
    return ApiError(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', **_named(resource, name))


def conflict(resource: Resource, name: str, why: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, **_named(resource, name))


def modified(resource: Resource, name: str) -> ApiError:
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, **_named(resource, name))


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def invalid(resource: Resource, name: str, field: str, why: str, reason: str = "FieldValueInvalid") -> ApiError:
    """A 422 with its one cause."""
    details: Json = {
        "name": name,
        **({"group": resource.group} if resource.group else {}),
        "kind": resource.kind,
        "causes": [{"reason": reason, "message": why, "field": field}],
    }
    return ApiError(422, "Invalid", f'{resource.kind} "{name}" is invalid: {field}: {why}', **details)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def unsupported_media(kind: str) -> ApiError:
    accepted = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {accepted} (got {kind})"
    )
    return ApiError(415, "UnsupportedMediaType", message)
