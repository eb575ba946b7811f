"""A definition that is written to a file is read back as it was, whatever names, types, options and texts it has."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.catalog import (
    CatalogDatabase,
    CatalogDefinition,
    CatalogTable,
    CatalogView,
    Column,
    ColumnKind,
    ObjectPath,
    WatermarkDefinition,
)
from sqlstream.client.catalog.definition_files import file_name, sql_name
from sqlstream.client.catalog.stored import (
    decode_catalog,
    decode_database,
    decode_object,
    encode_catalog,
    encode_database,
    encode_object,
)
from sqlstream.schema import Field, Schema

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PATHS = st.builds(ObjectPath, TEXTS, TEXTS, TEXTS)
OPTIONS = st.dictionaries(TEXTS, TEXTS, max_size=5)

SIMPLE_TYPES = st.one_of(
    st.sampled_from(
        [sql.BOOLEAN, sql.INT, sql.BIGINT, sql.DOUBLE, sql.DATE, sql.STRING, sql.BYTES, sql.NULL]
    ),
    st.sampled_from(
        [sql.INTERVAL_DAY_TIME, sql.INTERVAL_YEAR_MONTH, sql.PROCTIME, sql.as_rowtime(sql.timestamp(3))]
    ),
    st.builds(sql.char, st.integers(0, sql.VARCHAR_LENGTH_MAX)),
    st.builds(sql.varbinary, st.integers(1, sql.VARCHAR_LENGTH_MAX)),
    st.builds(sql.decimal, st.integers(1, 38), st.integers(0, 38)),
    st.builds(sql.timestamp_ltz, st.integers(0, 9)),
)
TYPES = st.recursive(
    SIMPLE_TYPES,
    lambda inner: st.one_of(
        st.builds(sql.array, inner),
        st.builds(sql.multiset, inner),
        st.builds(sql.map_of, inner, inner),
        st.lists(st.tuples(TEXTS, inner), max_size=3).map(lambda fields: sql.row(*fields)),
        st.builds(sql.LogicalType.with_nullable, inner, st.booleans()),
    ),
    max_leaves=6,
)
COLUMNS = st.builds(Column, TEXTS, TYPES, st.sampled_from(ColumnKind), TEXTS, TEXTS, st.booleans(), TEXTS)
TABLES = st.builds(
    CatalogTable,
    PATHS,
    st.lists(COLUMNS, max_size=5).map(tuple),
    OPTIONS,
    st.none() | st.builds(WatermarkDefinition, TEXTS, TEXTS),
    st.lists(TEXTS, max_size=3).map(tuple),
    st.lists(TEXTS, max_size=3).map(tuple),
    TEXTS,
)
VIEWS = st.builds(
    CatalogView,
    PATHS,
    TEXTS,
    st.lists(st.builds(Field, TEXTS, TYPES), max_size=4).map(lambda fields: Schema(tuple(fields))),
    st.lists(TEXTS, max_size=3).map(tuple),
    TEXTS,
    query_catalog=TEXTS,
    query_database=TEXTS,
)


@settings(max_examples=100, deadline=None)
@given(TABLES | VIEWS)
def test_a_table_or_view_is_read_back_as_it_was(entry: CatalogTable | CatalogView) -> None:
    assert decode_object(encode_object(entry), entry.path) == entry


@settings(max_examples=100, deadline=None)
@given(TEXTS, OPTIONS)
def test_a_database_and_a_catalog_are_read_back_as_they_were(comment: str, options: dict[str, str]) -> None:
    database = CatalogDatabase(comment, options)
    assert decode_database(encode_database(database)) == database
    definition = CatalogDefinition(options | {"type": "file"}, comment)
    assert decode_catalog(encode_catalog(definition)) == definition


@settings(max_examples=300, deadline=None)
@given(TEXTS, TEXTS)
def test_a_name_has_one_file_of_its_own_that_is_not_hidden(name: str, other: str) -> None:
    encoded = file_name(name)
    assert sql_name(encoded) == name
    assert "/" not in encoded
    assert not encoded.startswith(".")
    assert (file_name(other) == encoded) == (other == name)
