CREATE CATALOG c WITH ('type' = 'generic_in_memory');
CREATE CATALOG c WITH ('type' = 'generic_in_memory');
