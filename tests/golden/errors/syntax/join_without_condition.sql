SELECT * FROM a JOIN b WHERE a.x = b.x
