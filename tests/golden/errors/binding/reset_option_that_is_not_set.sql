ALTER TABLE t RESET ('rows-per-second');
