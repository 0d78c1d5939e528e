"""Facts about the Atari suite that are needed without an emulator."""

FRAMES_PER_STEP = 4
"""Emulator frames for which an action is repeated (Ape-X section 4.1, appendix C)."""

GAMES = tuple(
    """
    alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk
    bowling boxing breakout centipede chopper_command crazy_climber defender demon_attack
    double_dunk enduro fishing_derby freeway frostbite gopher gravitar hero ice_hockey jamesbond
    kangaroo krull kung_fu_master montezuma_revenge ms_pacman name_this_game phoenix pitfall pong
    private_eye qbert riverraid road_runner robotank seaquest skiing solaris space_invaders
    star_gunner surround tennis time_pilot tutankham up_n_down venture video_pinball wizard_of_wor
    yars_revenge zaxxon
    """.split()
)
"""The usual 57 games, as ALE names them."""

ENVIRONMENTS = tuple(f"atari:{game}" for game in GAMES)
"""The games' names for `common.environments.make`."""
