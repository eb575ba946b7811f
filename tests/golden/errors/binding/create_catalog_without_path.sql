CREATE CATALOG c WITH ('type' = 'file');
