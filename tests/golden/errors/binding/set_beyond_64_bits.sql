SET 'table.exec.state.ttl' = '18446744073709551616 ms';
