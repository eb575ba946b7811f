SET 'parallelism.defalt' = '4';
