"""The text of a .proto file as its descriptor. Options that do not change how messages are encoded are passed over."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from google.protobuf import descriptor_pb2 as pb

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9][0-9A-Za-z_]*(?:\.[0-9A-Za-z_]*)?(?:(?<=[eE])[-+][0-9]+)?|\.[0-9][0-9A-Za-z]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<sign>[^\sA-Za-z0-9_"'])""",
    re.VERBOSE | re.DOTALL,
)
SCALARS = (
    "double",
    "float",
    "int64",
    "uint64",
    "int32",
    "fixed64",
    "fixed32",
    "bool",
    "string",
    "group",
    "message",
    "bytes",
    "uint32",
    "enum",
    "sfixed32",
    "sfixed64",
    "sint32",
    "sint64",
)
"""The names of types, in the order of their numbers from 1."""
_NO_NAMES = ("group", "message", "enum")
_FILE_OPTIONS = ("java_package", "java_outer_classname", "java_multiple_files")
_DEPTH_MAX = 64


class Token(NamedTuple):
    kind: str
    text: str
    line: int


class WrongProto(ValueError):
    """The text is none of a .proto file."""


def parse_proto(text: str, name: str) -> pb.FileDescriptorProto:
    """The descriptor of a file. `WrongProto` for what is none; names of types are not resolved."""
    return _Parser(text, name).file()


def _tokens(text: str) -> list[Token]:
    found, at, line = [], 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise WrongProto(f"line {line}: a text does not end")
        if match.lastgroup is not None:
            found.append(Token(match.lastgroup, match[0], line))
        line += match[0].count("\n")
        at = match.end()
    return [*found, Token("end", "the end of the text", line)]


class _Parser:
    """A parser by recursive descent. State: the place of the next token."""

    def __init__(self, text: str, name: str) -> None:
        from google.protobuf import descriptor_pb2 as pb

        self._pb: Any = pb
        self._tokens = _tokens(text)
        self._at = 0
        self._file = pb.FileDescriptorProto(name=name)
        self._is_proto_3 = False
        self._depth = 0

    # Tokens.

    def _peek(self) -> str:
        token = self._tokens[self._at]
        return "" if token.kind in ("text", "end") else token.text

    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _wrong(self, wanted: str) -> WrongProto:
        token = self._tokens[self._at]
        return WrongProto(f"line {token.line}: {wanted} is missing before {token.text[:40]}")

    def _takes(self, text: str) -> bool:
        if self._peek() != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._wrong(f'"{text}"')

    def _word(self) -> str:
        if self._tokens[self._at].kind != "word":
            raise self._wrong("a name")
        return self._next().text

    def _name(self) -> str:
        """A name with dots, which may begin with one."""
        parts = "." if self._takes(".") else ""
        parts += self._word()
        while self._takes("."):
            parts += f".{self._word()}"
        return parts

    def _number(self) -> int:
        sign = -1 if self._takes("-") else 1
        if self._tokens[self._at].kind != "number":
            raise self._wrong("a number")
        text = self._next().text
        try:
            is_octal = text.startswith("0") and text.isdigit()
            return sign * (int(text, 8) if is_octal else int(text, 0))
        except ValueError:
            self._at -= 1
            raise self._wrong("a whole number") from None

    def _text(self) -> str:
        line = self._tokens[self._at].line
        try:
            return self._bytes().decode()
        except UnicodeDecodeError as error:
            raise WrongProto(f"line {line}: a text is no UTF-8") from error

    def _bytes(self) -> bytes:
        if self._tokens[self._at].kind != "text":
            raise self._wrong("a text in quotes")
        made = b""
        while self._tokens[self._at].kind == "text":
            token = self._next()
            escaped = "".join(chr(b) if b < 128 else f"\\x{b:02x}" for b in token.text.encode())
            try:
                made += ast.literal_eval(f"b{escaped}")
            except (ValueError, SyntaxError) as error:
                raise WrongProto(f"line {token.line}: {token.text[:40]} is no text") from error
        return made

    def _constant(self) -> str:
        """The value of an option, as a descriptor has it for a default."""
        if self._tokens[self._at].kind == "text":
            return self._text()
        if self._peek() == "{":
            self._braces()
            return ""
        sign = "-" if self._takes("-") else ""
        self._takes("+")
        if self._tokens[self._at].kind == "number":
            text = self._next().text
            is_octal = len(text) > 1 and text.startswith("0") and text.isdigit()
            if is_octal or text.lower().startswith("0x"):
                return f"{sign}{int(text, 8 if is_octal else 16)}"
            return sign + text
        return sign + self._name()

    def _braces(self) -> None:
        """Pass over all up to the brace that closes the one here."""
        self._expect("{")
        depth = 1
        while depth:
            token = self._next()
            if token.kind == "end":
                raise self._wrong('"}"')
            if token.kind == "sign":
                depth += {"{": 1, "}": -1}.get(token.text, 0)

    # Statements.

    def file(self) -> Any:
        if self._takes("syntax"):
            self._expect("=")
            syntax = self._text()
            if syntax not in ("proto2", "proto3"):
                raise WrongProto(f'its syntax "{syntax}" is neither proto2 nor proto3')
            self._is_proto_3 = syntax == "proto3"
            self._expect(";")
        elif self._peek() == "edition":
            raise WrongProto("it is one of an edition; name a descriptor set instead")
        if self._is_proto_3:
            self._file.syntax = "proto3"
        while self._tokens[self._at].kind != "end":
            self._top()
        return self._file

    def _top(self) -> None:
        match self._peek():
            case "import":
                self._at += 1
                if not self._takes("weak"):
                    self._takes("public")
                self._file.dependency.append(self._text())
                self._expect(";")
            case "package":
                self._at += 1
                self._file.package = self._name()
                self._expect(";")
            case "option":
                name, value = self._option()
                if name in _FILE_OPTIONS:
                    is_flag = name == "java_multiple_files"
                    setattr(self._file.options, name, value == "true" if is_flag else value)
            case "message":
                self._message(self._file.message_type.add())
            case "enum":
                self._enum(self._file.enum_type.add())
            case "service":
                self._at += 1
                self._word()
                self._braces()
            case "extend":
                self._at += 1
                self._name()
                self._braces()
            case ";":
                self._at += 1
            case _:
                raise self._wrong("message, enum, import, option or package")

    def _option(self) -> tuple[str, str]:
        self._expect("option")
        name = self._option_name()
        self._expect("=")
        value = self._constant()
        self._expect(";")
        return name, value

    def _option_name(self) -> str:
        name = ""
        while True:
            if self._takes("("):
                name += f"({self._name()})"
                self._expect(")")
            else:
                name += self._word()
            if not self._takes("."):
                return name
            name += "."

    def _message(self, made: Any) -> None:
        self._expect("message")
        made.name = self._word()
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise WrongProto(f"more than {_DEPTH_MAX} messages stand in each other")
        self._expect("{")
        while not self._takes("}"):
            self._member(made)
        self._depth -= 1
        # The fields that are optional in proto3 are each the only member of a oneof, which stand behind the others.
        for field in made.field:
            if field.proto3_optional:
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field.name}")

    def _member(self, made: Any) -> None:
        # The names of statements may be names of types too: what comes behind them tells.
        follows = self._tokens[self._at + 1] if self._tokens[self._at].kind != "end" else self._tokens[-1]
        is_statement = follows.kind == "word" or (follows.text == "(" and self._peek() == "option")
        match self._peek():
            case "message" if is_statement:
                self._message(made.nested_type.add())
            case "enum" if is_statement:
                self._enum(made.enum_type.add())
            case "oneof" if is_statement:
                self._oneof(made)
            case "option" if is_statement:
                self._option()
            case "extend" if follows.kind == "word" or follows.text == ".":
                self._at += 1
                self._name()
                self._braces()
            case "reserved" | "extensions" if follows.kind in ("number", "text") or follows.kind == "word":
                while not self._takes(";"):
                    if self._next().kind == "end":
                        raise self._wrong('";"')
            case ";":
                self._at += 1
            case "":
                raise self._wrong('"}"')
            case _:
                self._field(made)

    def _oneof(self, made: Any) -> None:
        self._expect("oneof")
        place = len(made.oneof_decl)
        made.oneof_decl.add(name=self._word())
        self._expect("{")
        while not self._takes("}"):
            if self._peek() == "option":
                self._option()
            else:
                self._field(made, oneof=place)

    def _field(self, made: Any, oneof: int | None = None) -> None:
        pb = self._pb.FieldDescriptorProto
        label = pb.LABEL_OPTIONAL
        is_optional = False
        if oneof is None and self._peek() in ("optional", "required", "repeated"):
            word = self._word()
            label = getattr(pb, f"LABEL_{word.upper()}")
            is_optional = word == "optional" and self._is_proto_3
            if word == "required" and self._is_proto_3:
                raise self._wrong('another label than "required", which proto3 does not have,')
        if self._peek() == "group":
            raise WrongProto(f"line {self._tokens[self._at].line}: groups are not supported")
        if self._peek() == "map" and self._tokens[self._at + 1].text == "<":
            return self._map(made)
        field = made.field.add(label=label, proto3_optional=is_optional)
        self._type(field)
        self._named(field)
        if oneof is not None:
            field.oneof_index = oneof
        return None

    def _type(self, field: Any) -> None:
        name = self._name()
        if name in SCALARS and name not in _NO_NAMES:
            field.type = SCALARS.index(name) + 1
        else:
            field.type_name = name

    def _named(self, field: Any) -> None:
        field.name = self._word()
        self._expect("=")
        field.number = self._field_number()
        if self._takes("["):
            while True:
                name = self._option_name()
                self._expect("=")
                if name == "default" and field.type == self._pb.FieldDescriptorProto.TYPE_BYTES:
                    value = "".join(f"\\{b:03o}" for b in self._bytes())
                else:
                    value = self._constant()
                if name == "default":
                    field.default_value = value
                elif name == "packed":
                    field.options.packed = value == "true"
                if not self._takes(","):
                    break
            self._expect("]")
        self._expect(";")

    def _field_number(self) -> int:
        token = self._tokens[self._at]
        number = self._number()
        if not 0 < number < 1 << 29:
            raise WrongProto(f"line {token.line}: {number} is no number of a field")
        return number

    def _map(self, made: Any) -> None:
        self._expect("map")
        self._expect("<")
        pb = self._pb.FieldDescriptorProto
        entry = self._pb.DescriptorProto()
        entry.options.map_entry = True
        for number, name in ((1, "key"), (2, "value")):
            part = entry.field.add(name=name, number=number, label=pb.LABEL_OPTIONAL)
            self._type(part)
            self._expect("," if number == 1 else ">")
        field = made.field.add(label=pb.LABEL_REPEATED)
        self._named(field)
        entry.name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        field.type_name = entry.name
        made.nested_type.append(entry)

    def _enum(self, made: Any) -> None:
        self._expect("enum")
        made.name = self._word()
        self._expect("{")
        while not self._takes("}"):
            follows = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
            if self._peek() == "option" and follows.text != "=":
                name, value = self._option()
                if name == "allow_alias":
                    made.options.allow_alias = value == "true"
            elif self._peek() == "reserved" and follows.text != "=":
                while not self._takes(";"):
                    if self._next().kind == "end":
                        raise self._wrong('";"')
            elif not self._takes(";"):
                value_made = made.value.add(name=self._word())
                self._expect("=")
                number = self._number()
                if not -(2**31) <= number < 2**31:
                    raise WrongProto(f"{number} is no number of an enum")
                value_made.number = number
                if self._takes("["):
                    while not self._takes("]"):
                        if self._next().kind == "end":
                            raise self._wrong('"]"')
                self._expect(";")
