"""The papers' figures, tables and claims: which runs they are made of, and what these decide."""
