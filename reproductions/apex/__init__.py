"""Ape-X (Horgan et al. 2018): DQN in dqn/, DPG in dpg/."""
