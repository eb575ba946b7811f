USE default_databse;
