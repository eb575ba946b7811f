CREATE TABLE x (auction BIGINT, prise BIGINT) WITH ('connector' = 'auctions', 'table' = 'bid');
