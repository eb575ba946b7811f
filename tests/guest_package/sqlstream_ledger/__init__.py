"""A package that brings a connector, a format, a type of catalogs and functions to sqlstream."""
