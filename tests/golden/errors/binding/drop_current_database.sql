DROP DATABASE default_database CASCADE;
