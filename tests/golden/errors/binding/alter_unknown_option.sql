ALTER TABLE t SET ('rows-per-secnd' = '4');
