SELECT id FROM orders gruop BY id
