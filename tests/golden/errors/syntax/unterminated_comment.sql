SELECT 1; /* and so on
