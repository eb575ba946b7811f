CREATE CATALOG c WITH ('type' = 'files', 'path' = '/x');
