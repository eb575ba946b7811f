SELECT a.b.c.f(1)
