"""Figures, tables and claims from kept runs."""
