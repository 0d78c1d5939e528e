"""PPO, with which ReF-ER compares."""
