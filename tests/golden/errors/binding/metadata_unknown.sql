CREATE TABLE x (a INT, p STRING METADATA FROM 'file.pth') WITH ('connector' = 'files', 'path' = 'y', 'format' = 'csv');
