"""Rows of the zoo: small models of transformers, with inputs on which they decide. For maintainers; no step runs it."""
