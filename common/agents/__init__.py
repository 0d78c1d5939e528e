"""The contracts of agents, and what agents of several papers share."""
