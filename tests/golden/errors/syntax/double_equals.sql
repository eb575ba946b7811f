SELECT id FROM orders WHERE product == 'apple'
