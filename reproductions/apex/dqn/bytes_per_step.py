"""shim"""


def bytes_per_step(config, spec, environment) -> float:
    """Shim"""
    return 2 * spec.observation_size * 0.2
