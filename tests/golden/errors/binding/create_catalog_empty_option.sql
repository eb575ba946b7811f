CREATE CATALOG c WITH ('type' = 'generic_in_memory', 'default-database' = '');
