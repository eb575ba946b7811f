SET 'a' = 'b';

SELCT 1;
