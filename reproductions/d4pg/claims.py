"""The paper's statements about its results, each with the test that decides it."""

from common.experiments.claims import Check, Claim, Evidence
from common.experiments.comparison import Comparison, Expected
from common.experiments.contrasts import largest_fall
from common.experiments.main_effects import EffectPart, MainEffects, mean_of
from common.experiments.shares import EACH, MANY, SOME
from reproductions.d4pg import settings
from reproductions.d4pg.experiments import CONTROL_SUITE

_FULL = "d4pg_prioritized_n5"
_CARTPOLE = "control:cartpole:swingup"
_HAND = "_lr5e-05_vmin0_vmax100"
_PARKOUR = "_lr5e-05_vmin-1_vmax10"
_HUMANOID_PARKOUR = "_lr5e-05_atoms101_vmin-1_vmax10"


def _pairs(
    first: str,
    second: str,
    suffix: str = "",
    agents=("d3pg", "d4pg"),
    replays=("uniform", "prioritized"),
    steps=(1, 5),
) -> tuple[tuple[str, str], ...]:
    """Returns pairs of the eight names that differ in one thing.

    Args:
      first: pattern of a name, in which {agent}, {replay} and {n} are the same for both.
      second: pattern of the other name.
      suffix: of both names.
      agents: values of {agent}.
      replays: values of {replay}.
      steps: values of {n}.
    """
    pairs = (
        (
            f"{first}{suffix}".format(agent=agent, replay=replay, n=n),
            f"{second}{suffix}".format(agent=agent, replay=replay, n=n),
        )
        for agent in agents
        for replay in replays
        for n in steps
    )
    return tuple(dict.fromkeys(pairs))


_N_5 = ("{agent}_{replay}_n5", "{agent}_{replay}_n1")
_DISTRIBUTION = ("d4pg_{replay}_n{n}", "d3pg_{replay}_n{n}")
_PRIORITY = ("{agent}_prioritized_n{n}", "{agent}_uniform_n{n}")
_MORE_THAN_PRIORITY = tuple((f"d4pg_uniform_n{n}", f"d3pg_prioritized_n{n}") for n in (1, 5))
"""The distributional update alone beside prioritisation alone, each added to the same agent."""
_REPLAYS = ("uniform", "prioritized")
_N_5_NAMES = tuple(name for name in settings.FIGURE_2 if name.endswith("n5"))
_PPO = "ppo"
_OTHERS = tuple(name for name in settings.FIGURE_2 if name != _FULL)
_ABLATIONS = tuple(name for name in _OTHERS if name != "ddpg")


def _dimensions(evidence: Evidence) -> tuple[bool, str]:
    """Compares section 4.1's range with table 1."""
    sizes = evidence.reported.table("d4pg", "table 1")["|X|"]
    said = [
        evidence.reported.number(
            "d4pg", "section 4.1", "control suite", f"{end} observation dimensions"
        )
        for end in ("least", "greatest")
    ]
    return (
        [sizes.min(), sizes.max()] == said,
        f"Table 1 goes from {sizes.min():.0f} ({sizes.idxmin()}) to {sizes.max():.0f} "
        f"({sizes.idxmax()}), the text says {said[0]:.0f} to {said[1]:.0f}.",
    )


_ALL_BUT_CARTPOLE = tuple(name for name in CONTROL_SUITE if name != _CARTPOLE)

CLAIMS = (
    Claim(
        "observations",
        "Observations of the Control Suite range between 6 and 60 dimensions.",
        "section 4.1",
        "table 1",
        Check(_dimensions, "table 1 has the same range"),
    ),
    Claim(
        "ddpg_worst",
        "Except on cartpole swingup, DDPG performs worse than all other methods.",
        "section 4.1, figure 2",
        "figure 2",
        Comparison(
            tuple((name, "ddpg") for name in settings.FIGURE_2 if name != "ddpg"),
            environments=_ALL_BUT_CARTPOLE,
            share=EACH,
        ),
    ),
    Claim(
        "ddpg_cartpole",
        "On cartpole swingup, the simplest task, DDPG does not perform worse.",
        "section 4.1, figure 2",
        "figure 2",
        Comparison((("ddpg", _FULL),), Expected.NOT_BEHIND, (_CARTPOLE,), clock="wall_seconds"),
    ),
    Claim(
        "distributed",
        "Without its enhancements, as DDPG, D4PG performs worse over the tasks other than cartpole "
        "swingup.",
        "section 4.1, figure 2",
        "figure 2",
        MainEffects((EffectPart("", mean_of([(_FULL, "ddpg")])),), _ALL_BUT_CARTPOLE),
    ),
    Claim(
        "full_best",
        "Across all tasks the full D4PG (prioritised, N = 5) performs best.",
        "section 4.1, figure 2",
        "figure 2",
        MainEffects(
            (
                EffectPart("ablations", mean_of([(_FULL, name) for name in _ABLATIONS])),
                *(
                    EffectPart(name, mean_of([(_FULL, name)]), Expected.NOT_BEHIND)
                    for name in _ABLATIONS
                ),
            )
        ),
    ),
    Claim(
        "n_step",
        "An unroll length of N = 5 is uniformly better than N = 1.",
        "section 4.1, figure 2",
        "figure 2",
        MainEffects(
            (
                EffectPart("all", mean_of(_pairs(*_N_5)), is_uniform=True),
                EffectPart("D3PG", mean_of(_pairs(*_N_5, agents=("d3pg",))), is_uniform=True),
                EffectPart("D4PG", mean_of(_pairs(*_N_5, agents=("d4pg",))), is_uniform=True),
            )
        ),
    ),
    Claim(
        "n_1_unstable",
        "N = 1 can result in instability, which is apparent on cheetah walk and "
        "cartpole swingup sparse.",
        "section 4.1, figure 2",
        "figure 2",
        Comparison(
            tuple((second, first) for first, second in _pairs(*_N_5)),
            environments=("control:cheetah:walk", "control:cartpole:swingup_sparse"),
            measure=largest_fall,
            measured="largest falls below a run's best return",
        ),
    ),
    Claim(
        "n_step_biggest",
        "The biggest gain of the simple changes is arguably the use of N-step returns.",
        "section 5, figure 2",
        "figure 2",
        Comparison(
            (
                ("d3pg_uniform_n5", "d3pg_uniform_n1"),
                ("d3pg_uniform_n5", "d4pg_uniform_n1"),
                ("d3pg_uniform_n5", "d3pg_prioritized_n1"),
            )
        ),
    ),
    *(
        Claim(
            f"distributional_n_{n}",
            f"The distributional critic improves performance, here with N = {n}.",
            "section 4.1, figure 2",
            "figure 2",
            MainEffects((EffectPart("", mean_of(_pairs(*_DISTRIBUTION, steps=(n,)))),)),
        )
        for n in (5, 1)
    ),
    Claim(
        "next_biggest",
        "The next biggest gain is arguably due to the distributional critic.",
        "section 4.1, figure 2",
        "figure 2",
        MainEffects((EffectPart("", mean_of(_pairs(*_DISTRIBUTION), less=_pairs(*_PRIORITY))),)),
    ),
    Claim(
        "distributional_hard",
        "It helps on the hardest tasks, humanoid run and acrobot.",
        "section 4.1, figure 2",
        "figure 2",
        Comparison(
            _pairs(*_DISTRIBUTION),
            environments=(
                "control:humanoid:run",
                "control:acrobot:swingup",
                "control:acrobot:swingup_sparse",
            ),
        ),
    ),
    Claim(
        "manipulator",
        "On the manipulator D3PG and D4PG perform approximately the same.",
        "section 4.1, figure 2",
        "figure 2",
        Comparison(_pairs(*_DISTRIBUTION), Expected.LEVEL, ("control:manipulator:bring_ball",)),
    ),
    Claim(
        "priority_d4pg",
        "Prioritisation does not contribute significantly to D4PG.",
        "section 4.1, figure 2",
        "figure 2",
        MainEffects(
            (
                EffectPart(
                    "", mean_of(_pairs(*reversed(_PRIORITY), agents=("d4pg",))), Expected.NOT_BEHIND
                ),
            )
        ),
    ),
    Claim(
        "priority_d3pg",
        "D3PG is helped significantly by prioritisation on many tasks.",
        "section 4.1, figure 2",
        "figure 2",
        Comparison(_pairs(*_PRIORITY, agents=("d3pg",)), Expected.CLEARLY_AHEAD, share=MANY),
    ),
    Claim(
        "noise",
        "Ornstein-Uhlenbeck noise is unnecessary: it does not add to performance.",
        "section 4",
        "section 4",
        MainEffects((EffectPart("", mean_of([(_FULL, f"{_FULL}_ou")]), Expected.NOT_BEHIND),)),
    ),
    Claim(
        "manipulation_n_step",
        "On the hand's tasks N = 5 is uniformly better across all algorithms.",
        "section 4.2, figure 3",
        "figure 3",
        Comparison(_pairs(*_N_5, _HAND), share=EACH),
    ),
    Claim(
        "manipulation_full",
        "On all of the hand's tasks the full D4PG is at the same level as its ablations or better.",
        "section 4.2, figure 3",
        "figure 3",
        Comparison(
            tuple((f"{_FULL}{_HAND}", f"{name}{_HAND}") for name in _ABLATIONS),
            Expected.NOT_BEHIND,
            share=EACH,
        ),
    ),
    Claim(
        "manipulation_priority",
        "On the hand's tasks prioritisation never seems to harm D4PG.",
        "section 4.2, figure 3",
        "figure 3",
        Comparison(_pairs(*_PRIORITY, _HAND, agents=("d4pg",)), Expected.NOT_BEHIND, share=EACH),
    ),
    Claim(
        "manipulation_d3pg",
        "On the hand's tasks prioritisation sometimes harms D3PG, as is readily seen at N = 1.",
        "section 4.2, figure 3",
        "figure 3",
        Comparison(
            _pairs(*reversed(_PRIORITY), _HAND, agents=("d3pg",), steps=(1,)),
            Expected.CLEARLY_AHEAD,
            share=SOME,
        ),
    ),
    Claim(
        "parkour",
        "In planar parkour the biggest gain is the distributional update.",
        "section 4.3, figure 5",
        "figure 5",
        Comparison(
            (
                *_pairs(*_DISTRIBUTION, _PARKOUR, replays=("uniform",)),
                *(
                    (f"{first}{_PARKOUR}", f"{second}{_PARKOUR}")
                    for first, second in _MORE_THAN_PRIORITY
                ),
            )
        ),
    ),
    Claim(
        "ppo_n_1",
        "In planar parkour PPO compares favourably to D3PG with N = 1, and D4PG outperforms PPO.",
        "section 4.3, figure 5",
        "figure 5",
        Comparison(
            (
                *((_PPO, f"d3pg_{replay}_n1{_PARKOUR}") for replay in _REPLAYS),
                *((f"d4pg_{replay}_n1{_PARKOUR}", _PPO) for replay in _REPLAYS),
            ),
            clock="wall_seconds",
        ),
    ),
    Claim(
        "ppo_n_5",
        "In planar parkour all algorithms outperform PPO with N = 5.",
        "section 4.3, figure 5",
        "figure 5",
        Comparison(tuple((f"{name}{_PARKOUR}", _PPO) for name in _N_5_NAMES), clock="wall_seconds"),
    ),
    Claim(
        "ppo_by_steps",
        "By actor steps PPO outperforms D3PG without prioritisation in planar parkour.",
        "section 4.3, figure 5",
        "figure 5",
        Comparison(
            tuple((_PPO, f"d3pg_uniform_n{n}{_PARKOUR}") for n in (1, 5)), clock="actor_steps"
        ),
    ),
    Claim(
        "ppo_humanoid",
        "In humanoid parkour PPO is the poorest, and prioritised D3PG has a slight edge over D3PG.",
        "section 4.3, figure 6",
        "figure 6",
        Comparison(
            (
                *((f"{name}{_HUMANOID_PARKOUR}", _PPO) for name in _N_5_NAMES),
                *_pairs(*_PRIORITY, _HUMANOID_PARKOUR, agents=("d3pg",), steps=(5,)),
            ),
            clock="wall_seconds",
        ),
    ),
    Claim(
        "humanoid_parkour",
        "In humanoid parkour D4PG is better than D3PG.",
        "section 4.3, figure 6",
        "figure 6",
        Comparison(_pairs(*_DISTRIBUTION, _HUMANOID_PARKOUR, steps=(5,))),
    ),
    Claim(
        "mixture",
        "A mixture of Gaussians underperforms the categorical distribution by a fair margin.",
        "appendix C, figure 8",
        "figure 8",
        Comparison(
            tuple(
                (f"{_FULL}_lr5e-05", name)
                for name in ("d4pg_mixture_prioritized_n5_lr5e-05", "d4pg_mixture_prioritized_n5")
            ),
            Expected.CLEARLY_AHEAD,
        ),
    ),
)
