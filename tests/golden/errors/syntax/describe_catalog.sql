DESCRIBE CATALOG default_catalog;
