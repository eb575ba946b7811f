CREATE CATALOG c WITH ('type' = 'file', 'pth' = '/x');
