SET 'parallelism.default' = '18446744073709551616';
