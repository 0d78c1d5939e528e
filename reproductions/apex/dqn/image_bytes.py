"""What an image takes as a PNG file, by environment, for the estimate of memory."""

import math

from common.environments.spec import EnvironmentSpec

RANDOM_PLAY = {
    "alien": 2766,
    "amidar": 1180,
    "assault": 1685,
    "asterix": 1456,
    "asteroids": 1485,
    "atlantis": 1450,
    "bank_heist": 1958,
    "battle_zone": 3006,
    "beam_rider": 1883,
    "berzerk": 1411,
    "bowling": 946,
    "boxing": 2017,
    "breakout": 893,
    "centipede": 1210,
    "chopper_command": 1777,
    "crazy_climber": 1655,
    "defender": 1307,
    "demon_attack": 1097,
    "double_dunk": 1934,
    "enduro": 2476,
    "fishing_derby": 2609,
    "freeway": 2030,
    "frostbite": 1772,
    "gopher": 1500,
    "gravitar": 1116,
    "hero": 1532,
    "ice_hockey": 1235,
    "jamesbond": 1441,
    "kangaroo": 1705,
    "krull": 3061,
    "kung_fu_master": 2271,
    "montezuma_revenge": 1703,
    "ms_pacman": 2973,
    "name_this_game": 2134,
    "phoenix": 880,
    "pitfall": 1652,
    "pong": 805,
    "private_eye": 2561,
    "qbert": 2829,
    "riverraid": 2134,
    "road_runner": 1539,
    "robotank": 2266,
    "seaquest": 1321,
    "skiing": 1975,
    "solaris": 2139,
    "space_invaders": 2532,
    "star_gunner": 1031,
    "surround": 1053,
    "tennis": 1439,
    "time_pilot": 1667,
    "tutankham": 2222,
    "up_n_down": 4524,
    "venture": 1692,
    "video_pinball": 2037,
    "wizard_of_wor": 2021,
    "yars_revenge": 5375,
    "zaxxon": 1486,
}
"""Bytes of a stack of four frames, mean of 240 in 2,400 steps of random play, by game."""
_PLAYED = 1.5
"""A policy that plays well may see more on its screen than a random one."""


def image_bytes(environment: str, spec: EnvironmentSpec) -> int:
    """Bytes of an image, rather too many: raw ones where nothing is known of the environment."""
    game = environment.removeprefix("atari:")
    if game == environment or game not in RANDOM_PLAY:
        return spec.observation_size
    return math.ceil(_PLAYED * RANDOM_PLAY[game])
