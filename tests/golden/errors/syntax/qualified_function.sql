SELECT cat.db.f(1)
