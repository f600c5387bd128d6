"""The contracts of all tables, each a `contract.Contract`: the only place where layers meet."""
