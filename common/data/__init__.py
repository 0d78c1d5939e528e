"""Kinds of data: the rows of a store, the adder that creates them, and what an update draws."""
