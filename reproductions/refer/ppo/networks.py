"""Policy and value (Novati & Koumoutsakos 2019, appendix A)."""

from common.agents.proximal import ProximalNetworks
from common.networks.mlp import SoftsignMLP
from reproductions.refer.ppo.config import ReferPPOConfig


def make_networks(
    config: ReferPPOConfig, observation_size: int, action_size: int
) -> ProximalNetworks:
    """Builds policy and value, of two layers each (appendix A).

    Softsign layers, and variances that all states share, are not in the paper: V-RACER's.
    """
    sizes = [config.hidden_size] * 2
    return ProximalNetworks(
        SoftsignMLP(observation_size, sizes, action_size),
        SoftsignMLP(observation_size, sizes, 1),
        action_size,
        config.initial_variance,
    )
