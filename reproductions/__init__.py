"""A directory a paper, and where each agent's `from_config` and `load_policy` are."""

AGENTS = {
    "d4pg": "reproductions.d4pg.agent",
    "apex_dqn": "reproductions.apex.dqn.agent",
    "apex_dpg": "reproductions.apex.dpg.agent",
}
"""Modules by the "agent" of a run's config.json, or its "paper" where a paper has one agent."""
