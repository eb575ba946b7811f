CREATE CATALOG a.b WITH ('type' = 'file');
