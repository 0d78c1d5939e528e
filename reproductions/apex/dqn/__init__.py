"""Ape-X DQN: double Q-learning with a dueling network on images."""
