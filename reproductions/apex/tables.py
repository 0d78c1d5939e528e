"""What stands beside the paper's tables."""

from common.experiments.atari_tables import GameScores, GameSummaries

TABLES = {
    "table 1": GameSummaries({"Ape-X DQN": "dqn"}, {"Median (no-op starts)": 100}),
    "table 2": GameScores({"No-op starts": "dqn"}),
}
"""From human starts there is nothing: they were never published."""
