"""PPO, a baseline of ReF-ER."""
