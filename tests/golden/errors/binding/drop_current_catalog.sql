DROP CATALOG default_catalog;
