"""The agent by name."""

from common.config import Settings
from reproductions.refer.ppo.config import ReferPPOConfig

SETTINGS = Settings(ReferPPOConfig, {"ppo": {}}, default="ppo")
