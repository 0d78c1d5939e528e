"""Distributed PPO, the baseline of D4PG on parkour."""
