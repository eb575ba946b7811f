SELECT * FROM sink;
