"""The documents themselves, built from the payload classes: a JSON Schema an event, one AsyncAPI 3.0 for all."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from shared.events import CONTENT_TYPE, PAYLOADS, Event, Payload

Document = dict[str, JsonValue]

_ADDRESS_OF_KIND: Final = {
    "state": "tm.job.{{job}}.state.{suffix}",
    "obs": "tm.job.{{job}}.obs.{suffix}",
    "name": "tm.name.{{nameHash}}",
    "epoch": "tm.epoch.scheduler",
    "node": "tm.node.{{cluster}}.{{node}}.{suffix}",
    "usage": "tm.usage.{{project}}",
    "platform": "tm.platform.{suffix}",
    "check": "tm.check.{{check}}.{suffix}",
}
_PARAMETERS: Final = {
    "job": "Id of the job.",
    "nameHash": "SHA-256 of owner and job name.",
    "cluster": "Name of the cluster.",
    "node": "Id of the node.",
    "check": "Id of the check.",
    "project": "Id of the project, made of its name.",
}


def file_name(payload: type[Payload]) -> str:
    """Name of the schema file of an event: its type."""
    return f"{payload.TYPE}.json"


def event_schema(payload: type[Payload]) -> Document:
    """JSON Schema of the whole CloudEvent with this payload, as it is on the wire."""
    envelope = Event.model_json_schema(mode="serialization")
    data = payload.model_json_schema(by_alias=True, mode="serialization")
    definitions = {**envelope.pop("$defs", {}), **data.pop("$defs", {})}
    definitions.pop("Payload", None)
    properties = {**envelope["properties"], "data": data, "type": {"const": payload.TYPE, "type": "string"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": payload.TYPE,
        "description": (payload.__doc__ or "").strip(),
        "type": "object",
        "required": sorted(envelope["required"]),
        "properties": properties,
        "$defs": dict(sorted(definitions.items())),
    }


def async_api(version: str) -> Document:
    """AsyncAPI 3.0 of everything published on JetStream."""
    channels: Document = {}
    operations: Document = {}
    messages: Document = {}
    for payload in PAYLOADS:
        name = payload.__name__
        address = _ADDRESS_OF_KIND[payload.KIND].format(suffix=payload.SUFFIX)
        channels[name] = _channel(name, address)
        operations[f"publish{name}"] = {
            "action": "send",
            "channel": {"$ref": f"#/channels/{name}"},
            "summary": f"{payload.AUTHOR}: {(payload.__doc__ or '').strip()}",
        }
        messages[name] = {
            "name": payload.TYPE,
            "contentType": CONTENT_TYPE,
            "payload": {"schemaFormat": "application/schema+json;version=draft-07", "schema": _reference(payload)},
        }
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Trainmaster events", "version": version},
        "defaultContentType": CONTENT_TYPE,
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages},
    }


def _reference(payload: type[Payload]) -> Document:
    return {"$ref": f"./events/{file_name(payload)}"}


def _channel(name: str, address: str) -> Document:
    parameters: Document = {
        parameter: {"description": text} for parameter, text in _PARAMETERS.items() if f"{{{parameter}}}" in address
    }
    channel: Document = {"address": address, "messages": {name: {"$ref": f"#/components/messages/{name}"}}}
    return {**channel, "parameters": parameters} if parameters else channel
