USE a.b.c;
