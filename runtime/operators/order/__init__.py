"""ORDER BY and LIMIT: rows in their order, and the first of them."""
