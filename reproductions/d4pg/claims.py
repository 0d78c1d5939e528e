"""The paper's statements about its results, each with the test that decides it."""

from common.experiments.claims import Check, Claim, Evidence
from common.experiments.effects import largest_fall
from common.experiments.main_effects import (
    LEVEL,
    NOT_BEHIND,
    EffectPart,
    MainEffects,
    Over,
    claim_of,
    each,
    mean_of,
)
from reproductions.d4pg import config as settings
from reproductions.d4pg.experiments import CONTROL_SUITE, FULL, HAND, HUMANOID_PARKOUR, PARKOUR

_CARTPOLE = "control:cartpole:swingup"


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
_REPLAYS = ("uniform", "prioritized")
_N_5_NAMES = tuple(name for name in settings.FIGURE_2 if name.endswith("n5"))
_PPO = "ppo"
_OTHERS = tuple(name for name in settings.FIGURE_2 if name != FULL)
_ABLATIONS = tuple(name for name in _OTHERS if name != "ddpg")
_BY_TIME = {"small": None}
"""Of claims about training time: at the scale small runs end by actor steps."""


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


def _uniformly_better(suffix: str = "") -> tuple[EffectPart, ...]:
    """Returns the parts of a claim that N = 5 is uniformly better, of settings with a suffix."""
    return tuple(
        EffectPart(
            ", ".join(map(str.upper, agents)),
            mean_of(_pairs(*_N_5, suffix, agents=agents)),
            over=Over.UNIFORM,
        )
        for agents in (("d3pg", "d4pg"), ("d3pg",), ("d4pg",))
    )


def _gain_of_distribution(suffix: str = "") -> tuple[EffectPart, ...]:
    """Returns the parts of a claim that the distributional critic gains, and what is largest."""
    gain = _pairs(*_DISTRIBUTION, suffix)
    return (
        EffectPart("effect", mean_of(gain)),
        EffectPart("beyond prioritisation's", mean_of(gain, less=_pairs(*_PRIORITY, suffix))),
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
        MainEffects(
            each([(name, "ddpg") for name in (FULL, *_ABLATIONS)]), environments=_ALL_BUT_CARTPOLE
        ),
    ),
    Claim(
        "ddpg_cartpole",
        "On cartpole swingup, the simplest task, DDPG does not perform worse than the others.",
        "section 4.1, figure 2",
        "figure 2",
        claim_of(
            [("ddpg", name) for name in (FULL, *_ABLATIONS)], NOT_BEHIND, environments=(_CARTPOLE,)
        ),
    ),
    Claim(
        "distributed",
        "Without its enhancements, as DDPG, D4PG performs worse over the tasks other than cartpole "
        "swingup.",
        "section 4.1, figure 2",
        "figure 2",
        claim_of([(FULL, "ddpg")], environments=_ALL_BUT_CARTPOLE),
    ),
    Claim(
        "full_best",
        "Across all tasks the full D4PG (prioritised, N = 5) performs best.",
        "section 4.1, figure 2",
        "figure 2",
        MainEffects(each([(FULL, name) for name in _ABLATIONS], over=Over.UNIFORM)),
    ),
    Claim(
        "n_step",
        "An unroll length of N = 5 is uniformly better than N = 1.",
        "section 4.1, figure 2",
        "figure 2",
        MainEffects(_uniformly_better()),
    ),
    Claim(
        "n_1_unstable",
        "N = 1 can result in instability, which is apparent on cheetah walk and "
        "cartpole swingup sparse.",
        "section 4.1, figure 2",
        "figure 2",
        claim_of(
            [(n_1, n_5) for n_5, n_1 in _pairs(*_N_5)],
            environments=("control:cheetah:walk", "control:cartpole:swingup_sparse"),
            measure=largest_fall,
        ),
    ),
    Claim(
        "n_step_biggest",
        "The biggest gain of the simple changes is arguably the use of N-step returns.",
        "sections 4.1 and 5, figure 2",
        "figure 2",
        MainEffects(
            (
                EffectPart(
                    "beyond the distributional critic's",
                    mean_of(_pairs(*_N_5), less=_pairs(*_DISTRIBUTION)),
                ),
                EffectPart(
                    "beyond prioritisation's", mean_of(_pairs(*_N_5), less=_pairs(*_PRIORITY))
                ),
            )
        ),
    ),
    *(
        Claim(
            f"distributional_n_{n}",
            f"The distributional critic improves performance, here with N = {n}.",
            "sections 1 and 4.1, figure 2",
            "figure 2",
            claim_of(_pairs(*_DISTRIBUTION, steps=(n,))),
        )
        for n in (5, 1)
    ),
    Claim(
        "next_biggest",
        "The next biggest gain is arguably due to the distributional critic.",
        "section 4.1, figure 2",
        "figure 2",
        MainEffects(_gain_of_distribution()),
    ),
    Claim(
        "distributional_hard",
        "It helps on the hardest tasks, humanoid run and acrobot.",
        "section 4.1, figure 2",
        "figure 2",
        claim_of(
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
        claim_of(_pairs(*_DISTRIBUTION), LEVEL, environments=("control:manipulator:bring_ball",)),
    ),
    Claim(
        "priority_d4pg",
        "Prioritisation does not contribute significantly to D4PG.",
        "section 4.1, figure 2",
        "figure 2",
        claim_of(_pairs(*reversed(_PRIORITY), agents=("d4pg",)), NOT_BEHIND),
    ),
    Claim(
        "priority_d3pg",
        "D3PG is helped significantly by prioritisation on many tasks.",
        "section 4.1, figure 2",
        "figure 2",
        claim_of(_pairs(*_PRIORITY, agents=("d3pg",))),
    ),
    Claim(
        "noise",
        "Ornstein-Uhlenbeck noise is unnecessary: it does not add to performance.",
        "section 4",
        "section 4",
        claim_of([(FULL, f"{FULL}_ou")], NOT_BEHIND),
    ),
    Claim(
        "manipulation_n_step",
        "On the hand's tasks N = 5 is uniformly better across all algorithms.",
        "section 4.2, figure 3",
        "figure 3",
        MainEffects(_uniformly_better(HAND)),
    ),
    Claim(
        "manipulation_full",
        "On all of the hand's tasks the full D4PG is at the same level as its ablations or better.",
        "section 4.2, figure 3",
        "figure 3",
        MainEffects(
            each(
                [(f"{FULL}{HAND}", f"{name}{HAND}") for name in _ABLATIONS],
                NOT_BEHIND,
                Over.UNIFORM,
                HAND,
            )
        ),
    ),
    Claim(
        "manipulation_priority",
        "On the hand's tasks prioritisation never seems to harm D4PG.",
        "section 4.2, figure 3",
        "figure 3",
        claim_of(_pairs(*_PRIORITY, HAND, agents=("d4pg",)), NOT_BEHIND, Over.UNIFORM),
    ),
    Claim(
        "manipulation_d3pg",
        "On the hand's tasks prioritisation sometimes harms D3PG, as is readily seen at N = 1.",
        "section 4.2, figure 3",
        "figure 3",
        claim_of(_pairs(*reversed(_PRIORITY), HAND, agents=("d3pg",), steps=(1,)), over=Over.SOME),
    ),
    Claim(
        "parkour",
        "In planar parkour the biggest gain is the distributional update.",
        "section 4.3, figure 5",
        "figure 5",
        MainEffects(_gain_of_distribution(PARKOUR)),
    ),
    Claim(
        "parkour_n_step",
        "In planar parkour the higher unroll length results in better performance.",
        "section 4.3, figure 5",
        "figure 5",
        claim_of(_pairs(*_N_5, PARKOUR)),
    ),
    Claim(
        "ppo_n_1",
        "In planar parkour PPO compares favourably to D3PG with N = 1, and D4PG outperforms PPO.",
        "section 4.3, figure 5",
        "figure 5",
        MainEffects(
            (
                EffectPart(
                    "PPO over D3PG",
                    mean_of([(_PPO, f"d3pg_{one}_n1{PARKOUR}") for one in _REPLAYS]),
                ),
                EffectPart(
                    "D4PG over PPO",
                    mean_of([(f"d4pg_{one}_n1{PARKOUR}", _PPO) for one in _REPLAYS]),
                ),
            ),
            at=_BY_TIME,
        ),
    ),
    Claim(
        "ppo_n_5",
        "In planar parkour all algorithms outperform PPO with N = 5.",
        "section 4.3, figure 5",
        "figure 5",
        MainEffects(
            each([(f"{name}{PARKOUR}", _PPO) for name in _N_5_NAMES], suffix=PARKOUR), at=_BY_TIME
        ),
    ),
    Claim(
        "ppo_by_steps",
        "By actor steps PPO outperforms D3PG without prioritisation in planar parkour.",
        "section 4.3, figure 5",
        "figure 5",
        claim_of([(_PPO, f"d3pg_uniform_n{n}{PARKOUR}") for n in (1, 5)], clock="actor_steps"),
    ),
    Claim(
        "ppo_humanoid",
        "In humanoid parkour PPO is the poorest, and prioritised D3PG has a slight edge over D3PG.",
        "section 4.3, figure 6",
        "figure 6",
        MainEffects(
            (
                *each(
                    [(f"{name}{HUMANOID_PARKOUR}", _PPO) for name in _N_5_NAMES],
                    suffix=HUMANOID_PARKOUR,
                ),
                EffectPart(
                    "prioritisation of D3PG",
                    mean_of(_pairs(*_PRIORITY, HUMANOID_PARKOUR, agents=("d3pg",), steps=(5,))),
                ),
            )
        ),
    ),
    Claim(
        "humanoid_parkour",
        "In humanoid parkour D4PG is better than D3PG.",
        "section 4.3, figure 6",
        "figure 6",
        claim_of(_pairs(*_DISTRIBUTION, HUMANOID_PARKOUR, steps=(5,))),
    ),
    Claim(
        "mixture",
        "A mixture of Gaussians underperforms the categorical distribution by a fair margin.",
        "appendix C, figure 8",
        "figure 8",
        MainEffects(
            (
                EffectPart(
                    "at equal learning rates",
                    mean_of([(f"{FULL}_lr5e-05", "d4pg_mixture_prioritized_n5_lr5e-05")]),
                ),
                EffectPart(
                    "at twice the rate",
                    mean_of([(f"{FULL}_lr5e-05", "d4pg_mixture_prioritized_n5")]),
                ),
            )
        ),
    ),
)
