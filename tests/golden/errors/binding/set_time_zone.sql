SET 'table.local-time-zone' = 'Europe/Berln';
