"""Kinds of data: the rows of a store, the adder that makes them, and what an update draws."""
