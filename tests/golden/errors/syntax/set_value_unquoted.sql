SET 'parallelism.default' = 2
