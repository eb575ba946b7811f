SELECT * FROM e MATCH_RECOGNIZE (ORDER BY rt PATTERN (up down) SUBSET u = (up, left1) DEFINE up AS id > 1);
