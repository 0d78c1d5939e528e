"""What stands beside the paper's tables."""

from common.experiments.atari_tables import GameScores, GameSummaries

_AGENTS = {"Reactor ND": "reactor_nd", "Reactor": "reactor", "Reactor 500m": "reactor_500m"}

TABLES = {
    "table 2": GameSummaries(_AGENTS, {"Normalized scores": 1}, ranks="Mean rank", elo="Elo"),
    "table 5": GameScores(_AGENTS),
}
"""Tables 1 and 4 are of human starts, which were never published."""
