"""Distributed PPO, with which D4PG compares on parkour."""
