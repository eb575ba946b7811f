"""Descriptors of messages: out of the text of .proto files, or of a descriptor set that protoc has written."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sqlstream.runtime.formats.protobuf.proto_text import parse_proto

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_WELL_KNOWN = "google/protobuf/"
# Files that only have options, which are passed over.
_WITHOUT_TYPES = ("confluent/meta.proto", "gogoproto/gogo.proto", "google/api/annotations.proto")


def files_of_text(text: str, imported: Mapping[str, str] | None = None) -> list[FileDescriptor]:
    """The descriptor of a .proto file, and those of the files with these names that it imports. ValueError for what is none."""
    files = {"schema.proto": parse_proto(text, "schema.proto")}
    for name, one in (imported or {}).items():
        files[name] = parse_proto(one, name)
    found = _linked(files)
    return [found["schema.proto"], *(f for name, f in found.items() if name != "schema.proto")]


def files_of_set(data: bytes) -> list[FileDescriptor]:
    """The files of a descriptor set. ValueError for what is none."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        found = descriptor_pb2.FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise ValueError("it is no descriptor set, which protoc --descriptor_set_out writes") from error
    if not found.file:
        raise ValueError("it has no files; protoc --descriptor_set_out writes a descriptor set")
    return list(_linked({file.name: file for file in found.file}).values())


def _linked(files: Mapping[str, FileDescriptorProto]) -> dict[str, FileDescriptor]:
    """Each file behind those that it imports."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    found: dict[str, FileDescriptor] = {}
    begun: set[str] = set()

    def add(name: str) -> None:
        if name in begun:
            return
        begun.add(name)
        file = files.get(name) or _known(name)
        for imported in file.dependency:
            add(imported)
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            reason = str(error).partition("descriptor pool: ")[2] or str(error)
            raise ValueError(reason.rstrip(".")) from error
        if name in files:
            found[name] = pool.FindFileByName(name)

    for name in files:
        add(name)
    return found


def _known(name: str) -> Any:
    """A file that everybody has. ValueError for any other one."""
    from google.protobuf import descriptor_pb2

    made = descriptor_pb2.FileDescriptorProto()
    stem = name.removeprefix(_WELL_KNOWN).removesuffix(".proto")
    if name in _WITHOUT_TYPES:
        made.name = name
    elif name.startswith(_WELL_KNOWN) and stem.isidentifier():
        try:
            module = importlib.import_module(f"google.protobuf.{stem}_pb2")
        except ImportError as error:
            raise ValueError(f'it imports "{name}", which there is not') from error
        module.DESCRIPTOR.CopyToProto(made)
    else:
        raise ValueError(f'it imports "{name}", which is not there')
    return made


def message_named(files: Iterable[FileDescriptor], name: str) -> Descriptor:
    """The message with a full name, that of its Java class, or a name that only one has. ValueError for none."""
    by_name: dict[str, list[Descriptor]] = {}
    for file in files:
        for message, java in _messages(file):
            for known in {message.full_name, java, message.name, java.replace("$", ".")}:
                by_name.setdefault(known, []).append(message)
    found = by_name.get(name, [])
    exact = [m for m in found if m.full_name == name]
    if len(exact or found) == 1:
        return (exact or found)[0]
    names = sorted({m.full_name for each in by_name.values() for m in each})
    said = f'several messages have the name "{name}"' if found else f'there is no message "{name}"'
    raise ValueError(f"{said}; there are {', '.join(names[:20]) or 'none at all'}")


def message_at(file: FileDescriptor, places: tuple[int, ...]) -> Descriptor:
    """The message at a place of the file, and within it. LookupError for none."""
    within = list(file.message_types_by_name.values())
    found = None
    for place in places:
        if not 0 <= place < len(within):
            raise LookupError(places)
        found = within[place]
        within = list(found.nested_types)
    if found is None:
        raise LookupError(places)
    return found


def _messages(file: FileDescriptor) -> Iterator[tuple[Descriptor, str]]:
    """The messages of a file, with the names of their classes in Java."""
    options = file.GetOptions()
    package = options.java_package or file.package
    outer = [] if options.java_multiple_files else [options.java_outer_classname or _outer_name(file)]

    def within(message: Descriptor, outer: list[str]) -> Iterator[tuple[Descriptor, str]]:
        names = [*outer, message.name]
        yield message, ".".join([package] * bool(package) + ["$".join(names)])
        for nested in message.nested_types:
            if not nested.GetOptions().map_entry:
                yield from within(nested, names)

    for message in file.message_types_by_name.values():
        yield from within(message, outer)


def _outer_name(file: FileDescriptor) -> str:
    stem = file.name.rpartition("/")[2].removesuffix(".proto")
    made = "".join(part[:1].upper() + part[1:] for part in stem.replace("-", "_").split("_"))
    taken = {*file.message_types_by_name, *file.enum_types_by_name, *file.services_by_name}
    return f"{made}OuterClass" if made in taken else made
