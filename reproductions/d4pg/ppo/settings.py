"""The agent by name."""

from common.config import Settings
from reproductions.d4pg.ppo.config import D4PGPPOConfig

SETTINGS = Settings(D4PGPPOConfig, {"ppo": {}}, default="ppo")
