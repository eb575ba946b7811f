SELECT id user_id amount FROM orders
