"""Functions of JSON. Their modules are loaded with the first call."""

from __future__ import annotations

from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import Builder, Kernel
from sqlstream.spi.imported_by_need import imported


def _late(place: str) -> Builder:
    """The builder at `module:name` of this package."""

    def build(call: Call, context: EvaluationContext) -> Kernel:
        builder: Builder = imported(f"sqlstream.runtime.evaluate.json.{place}")
        return builder(call, context)

    return build


BUILDERS: dict[str, Builder] = {
    "JSON_VALUE": _late("extract:json_value"),
    "JSON_QUERY": _late("extract:json_query"),
    "JSON_EXISTS": _late("extract:json_exists"),
    "IS JSON": _late("extract:is_json"),
    "JSON_LENGTH": _late("extract:json_length"),
    "JSON_TYPE": _late("extract:json_type"),
    "JSON_STRING": _late("construct:json_string"),
    "JSON_OBJECT": _late("construct:json_object"),
    "JSON_ARRAY": _late("construct:json_array"),
    "JSON": _late("construct:json_raw"),
    "PARSE_JSON": _late("variant:parse_json"),
    "TRY_PARSE_JSON": _late("variant:parse_json"),
    "VARIANT_TEXT": _late("variant:variant_text"),
    "JSON_ITEMS": _late("construct:json_items"),
    "JSON_MEMBER": _late("construct:json_member"),
    "JSON_MEMBERS": _late("construct:json_members"),
    "JSON_QUOTE": _late("quoting:json_quote"),
    "JSON_UNQUOTE": _late("quoting:json_unquote"),
}
