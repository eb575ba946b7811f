CREATE TABLE x (auction INT) WITH ('connector' = 'auctions', 'table' = 'bid');
