INSERT INTO hive.report.t SELECT 1;
