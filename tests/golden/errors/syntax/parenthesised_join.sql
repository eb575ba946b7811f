SELECT * FROM (a JOIN b ON a.x = b.x)
