"""Ape-X DPG: deterministic policy gradients on a distributed prioritised replay."""
