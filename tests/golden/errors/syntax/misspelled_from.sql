SELECT id form orders
