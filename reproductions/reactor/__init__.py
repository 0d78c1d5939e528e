"""Reactor: a fast and sample-efficient actor-critic agent."""
