"""sqlstream for SQLAlchemy 2: the URLs `sqlstream://host:port/database` and `sqlstream+embedded://`."""
