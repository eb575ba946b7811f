"""Rows, arrays and maps in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.expressions import Call
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.handler import Handler, constant_number
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.types import INTEGER, failure, type_
from sqlstream.types import NESTED_ROOTS, TypeRoot


def _field(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    name = call.args[0].type.fields[constant_number(call, 1)].name
    return tree.call("struct_extract", args[0], tree.text(name))


def _row(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """A row without names, which the cast gives it."""
    return tree.cast(tree.call("row", *args), type_(call.type))


def _array(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.cast(tree.call("list_value", *args), type_(call.type))


def _map(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """MAP; of entries with equal keys the last is kept."""
    key = call.args[0].type
    if key.root in NESTED_ROOTS:
        raise refuse(f"MAP with keys of type {key.with_nullable(True)}")
    made = type_(call.type)
    keys, values = args[0::2], args[1::2]

    def build(keys: exp.Expr, values: exp.Expr) -> exp.Expr:
        # A key is kept at its last place: none of the keys behind that is equal.
        place, own = tree.column("p"), tree.call("list_extract", keys, tree.column("p"))
        behind = tree.call(
            "list_slice", keys, tree.operate(exp.Add, place, tree.number(1)), tree.number(len(args))
        )
        is_last = exp.Lambda(
            this=tree.negated(tree.call("list_contains", behind, own)), expressions=[exp.to_identifier("p")]
        )
        places = tree.call(
            "list_filter", tree.call("range", tree.number(1), tree.number(len(args) // 2 + 1)), is_last
        )
        kept = [
            tree.call(
                "list_transform",
                places,
                exp.Lambda(
                    this=tree.call("list_extract", listed, tree.column("p")),
                    expressions=[exp.to_identifier("p")],
                ),
            )
            for listed in (keys, values)
        ]
        has_null = tree.any_of([tree.is_null(key) for key in args[0::2]])
        return tree.case(
            [(has_null, failure("a key of a MAP is NULL", made))], tree.cast(tree.call("map", *kept), made)
        )

    return bound(
        tree.call("list_value", *keys),
        lambda k: bound(tree.call("list_value", *values), lambda v: build(k, v)),
    )


def _item(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    collection, place = args
    if call.args[0].type.root is not TypeRoot.ARRAY:
        return tree.call("map_extract_value", collection, place)

    # DuckDB counts negative positions from the end.
    def element(place: exp.Expr) -> exp.Expr:
        is_place = tree.operate(exp.GT, place, tree.number(0))
        return tree.case([(is_place, tree.call("list_extract", collection, place))])

    return bound(place, element)


def _cardinality(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if call.args[0].type.root is TypeRoot.MULTISET:
        raise refuse("CARDINALITY of a MULTISET")
    function = "cardinality" if call.args[0].type.root is TypeRoot.MAP else "len"
    return tree.cast(tree.call(function, args[0]), INTEGER)


HANDLERS: dict[str, Handler] = {
    "FIELD": _field,
    "ROW": _row,
    "ARRAY": _array,
    "MAP": _map,
    "ITEM": _item,
    "CARDINALITY": _cardinality,
}
