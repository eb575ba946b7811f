USE CATALOG defualt_catalog;
