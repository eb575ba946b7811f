"""The fields of all that is kept on disks, and which changes of them a release may make under one version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import inspect

Layouts = dict[str, dict[str, Any]]
"""Of each format its version, and its types: of a struct its tag and fields, of an enumeration its values."""


def layouts() -> Layouts:
    from sqlstream.client.catalog import stored
    from sqlstream.client.server import job_store, tokens
    from sqlstream.messages.manifest import MANIFEST_VERSION, CheckpointManifest
    from sqlstream.runtime.checkpoint import manifest_file
    from sqlstream.runtime.connectors.files import job_records, table_log

    jobs = [
        getattr(job_store, name)
        for name in vars(job_store)
        if name.startswith("_Stored") and name != "_Stored"
    ]
    catalogs = [
        getattr(stored, name) for name in vars(stored) if name.startswith("Stored") and name != "Stored"
    ]
    found = {
        "jobs": (job_store.FORMAT_VERSION, [*jobs, job_store.JobGraph]),
        "checkpoints": (MANIFEST_VERSION, [manifest_file._Envelope, CheckpointManifest]),
        "catalogs": (stored.FORMAT, [*catalogs, stored.CatalogHead]),
        "tokens": (1, [tokens.Token]),
        "records in tables of files": (1, [job_records.JobRecord, table_log.Move]),
    }
    return {name: {"version": version, "types": _types(roots)} for name, (version, roots) in found.items()}


def messages() -> Layouts:
    """What goes between the processes of a cluster; only of code that has joining TaskManagers."""
    from sqlstream.messages import rpc
    from sqlstream.runtime.net import joining

    roots = [rpc.ToJobManager, rpc.ToTaskManager, joining.JoinRequest, joining.Admission, joining.Refusal]
    return {"protocol": {"version": rpc.PROTOCOL_VERSION, "types": _types(roots)}}


def problems(old: Layouts, new: Layouts) -> list[str]:
    """What of the old layouts the new code would not read, where the version is the same."""
    found = []
    for name, before in old.items():
        after = new[name]
        if after["version"] == before["version"]:
            found += [f"{name}: {problem}" for problem in _of_types(before["types"], after["types"])]
    return found


def _of_types(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for name, old in before.items():
        new = after.get(name)
        if new is None:
            yield f"{name} is gone"
        elif "values" in old:
            if lost := sorted(set(old["values"]) - set(new["values"])):
                yield f"{name} has no {', '.join(lost)} any more"
        elif old["tag"] != new["tag"]:
            yield f"{name} has another tag"
        else:
            yield from (f"{name}.{problem}" for problem in _of_fields(old, new))


def _of_fields(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name, field in old["fields"].items():
        if name not in new["fields"]:
            if new["refuses_others"]:
                yield f"{name} is refused"
        elif not set(field["type"]) <= set(new["fields"][name]["type"]):
            yield f"{name} is {new['fields'][name]['type']} and was {field['type']}"
    for name, field in new["fields"].items():
        if name not in old["fields"] and field["is_required"]:
            yield f"{name} is new and has no default"


def _types(roots: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for info in inspect.multi_type_info(roots):
        _named(info, found)
    return dict(sorted(found.items()))


def _named(info: inspect.Type, found: dict[str, Any]) -> list[str]:
    """The alternatives that a type has, by name; structs and enumerations are added to `found`."""
    match info:
        case inspect.UnionType():
            return sorted({name for each in info.types for name in _named(each, found)})
        case inspect.StructType() | inspect.DataclassType():
            name = info.cls.__name__
            if name not in found:
                found[name] = entry = {
                    "tag": str(getattr(info, "tag", None)),
                    "refuses_others": getattr(info, "forbid_unknown_fields", False),
                    "fields": {},
                }
                entry["fields"] |= {
                    field.encode_name: {"type": _named(field.type, found), "is_required": field.required}
                    for field in info.fields
                }
            return [name]
        case inspect.EnumType():
            found[info.cls.__name__] = {"values": [str(each.value) for each in info.cls]}
            return [info.cls.__name__]
        case inspect.LiteralType():
            return [repr(value) for value in info.values]
        case inspect.TupleType():
            items = enumerate(info.item_types)
            return [f"{place} of tuple: {name}" for place, each in items for name in _named(each, found)]
        case inspect.CollectionType():
            return [f"list of {name}" for name in _named(info.item_type, found)]
        case inspect.DictType():
            keys, values = _named(info.key_type, found), _named(info.value_type, found)
            return [f"map of {key} to {value}" for key in keys for value in values]
    return [type(info).__name__.removesuffix("Type").lower()]


def digests(found: Layouts) -> str:
    """A line for each type: one changes when the type does."""
    lines = []
    for name, layout in sorted(found.items()):
        lines.append(f"{name}, version {layout['version']}")
        for kind, fields in layout["types"].items():
            digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
            lines.append(f"  {kind} {digest[:12]}")
    return "\n".join(lines) + "\n"


def read(path: Path) -> Layouts:
    found: Layouts = json.loads(path.read_text())
    return found


def write(path: Path) -> None:
    path.write_text(json.dumps(layouts(), sort_keys=True, separators=(",", ":")) + "\n")
