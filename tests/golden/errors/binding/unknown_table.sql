SELECT * FROM sinc;
