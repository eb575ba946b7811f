ALTER TABLE t RESET (format);
