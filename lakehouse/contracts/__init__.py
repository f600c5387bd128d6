"""The contracts of all tables: the only place where layers meet."""
