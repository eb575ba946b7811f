SELECT f(a => 1)
