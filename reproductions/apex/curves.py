"""The curves of the paper's figures: what they vary, and their looks."""

from collections.abc import Mapping

from common.figures.palette import BLUE, GREEN, VERMILLION, Look, Style

FIGURE_3_ACTORS = (8, 16, 32, 64)
FIGURE_4_ACTORS = (8, 16, 32, 64, 128, 256)
FIGURE_3_SMALL = (8, 16, 64)
FIGURE_4_SMALL = (8, 32, 128)
"""Numbers of actors in the scale models."""
FIGURE_13_TWO_CORES = (2, 4, 8, 16, 32)
FIGURE_14_TRIED = {
    "dqn_lr0.00025": "dqn_replay_1m_lr0.00025",
    "dqn_uniform_lr6.25e-05": "dqn_uniform_replay_1m_lr6.25e-05",
}
"""Figure 14's learning rates that were tried and not kept: beginnings of names, with settings."""
CAPACITIES = {
    "250k": "dqn_replay_250k",
    "500k": "dqn_replay_500k",
    "1m": "dqn_replay_1m",
    "2m": "dqn",
}
"""Figure 5's capacities, each with its setting."""
OTHER_BATCH_SIZES = (32, 128, 256, 1024)
"""Appendix E's for Ape-X DQN, which has 512."""
OTHER_LEARNING_RATES = ("0.00025", "3.125e-05")
"""Appendix E's for Ape-X DQN, which has 6.25e-05."""
_EXPONENTS = {
    "dpg_uniform": "exponent 0",
    **{
        f"dpg_alpha{alpha}": f"exponent {alpha}"
        for alpha in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 1)
    },
}
_DPG_RATES = {
    f"dpg_lr{rate}": f"DPG, learning rate {rate}" for rate in ("0.001", "0.0003", "3e-05", "1e-05")
}
_DPG_BATCH_SIZES = {f"dpg_batch{size}": f"DPG, batches of {size}" for size in (32, 128, 512, 1024)}
DPG_VARIANTS = (*_EXPONENTS, *_DPG_RATES, *_DPG_BATCH_SIZES)
"""Appendix E's for Ape-X DPG, which has 0.6, 1e-4 and 256."""

_HUES = {
    "blue": ((204, 225, 242), (8, 48, 107)),
    "red": ((253, 219, 199), (127, 32, 0)),
    "green": ((161, 217, 155), (0, 68, 27)),
    "purple": ((188, 189, 220), (63, 0, 125)),
    "orange": ((253, 208, 162), (166, 54, 3)),
    "grey": ((189, 189, 189), (37, 37, 37)),
}
"""RGB of the first and the last value that is varied: lightness tells curves of one hue apart."""
_LADDER = (2, 4, 8, 16, 32, 64, 128, 256)


def _shades(hue: str, count: int, line: str = "-") -> list[Style]:
    """Returns styles from light to dark."""
    styles = []
    for number in range(count):
        position = number / (count - 1)
        mixed = (light + position * (dark - light) for light, dark in zip(*_HUES[hue]))
        styles.append(Style("#" + "".join(f"{round(part):02X}" for part in mixed), line))
    return styles


def _study(hue: str, labels: Mapping[str, str]) -> dict[str, Look]:
    """Returns the looks of settings that vary one thing, given their labels."""
    return {
        name: Look(label, style)
        for (name, label), style in zip(labels.items(), _shades(hue, len(labels)))
    }


def _looks() -> dict[str, Look]:
    ours, uniform, bfloat16 = Style(BLUE, width=2.0), Style(VERMILLION), Style(GREEN)
    # Blue is prioritised and red uniform replay; the rates that were not kept are dotted.
    blue, red, other_blue, other_red = (
        dict(zip(_LADDER, _shades(hue, len(_LADDER), line)))
        for hue, line in (("blue", "-"), ("red", "--"), ("blue", ":"), ("red", ":"))
    )
    looks = {
        "dqn": Look("Ape-X DQN", ours),
        "dqn_uniform": Look("Ape-X DQN, uniform", uniform),
        "dqn_full_range": Look("full range of epsilon", ours),
        "dqn_six_epsilons": Look("six values of epsilon", Style(VERMILLION)),
        **{
            f"dqn_{n}_actors_8_copies_replay_1m": Look(f"{n} actors, 8 copies", Style(VERMILLION))
            for n in (16, 32)
        },
        "dqn_two_cores": Look("Ape-X DQN on two cores", ours),
        "dqn_two_cores_uniform": Look("Ape-X DQN on two cores, uniform", uniform),
        "dqn_two_cores_bfloat16": Look("Ape-X DQN on two cores, bfloat16", bfloat16),
        "dqn_ten_minutes": Look("Ape-X DQN, ten minutes", ours),
        "dqn_ten_minutes_alpha0": Look("Ape-X DQN, ten minutes, uniform", uniform),
        "dqn_ten_minutes_bfloat16": Look("Ape-X DQN, ten minutes, bfloat16", bfloat16),
        "dpg": Look("Ape-X DPG", ours),
        "dpg_remove_by_fifo": Look("first in, first out", Style(VERMILLION)),
    }
    for n in FIGURE_4_ACTORS:
        looks |= {
            f"dqn_{n}_actors_replay_1m": Look(f"{n} actors", blue[n]),
            f"dqn_uniform_lr0.00025_{n}_actors_replay_1m": Look(f"{n} actors, uniform", red[n]),
            f"dqn_lr0.00025_{n}_actors_replay_1m": Look(f"{n} actors, rate 0.00025", other_blue[n]),
            f"dqn_uniform_lr6.25e-05_{n}_actors_replay_1m": Look(
                f"{n} actors, uniform, rate 6.25e-05", other_red[n]
            ),
        }
    for n in (max(FIGURE_4_SMALL), max(FIGURE_4_ACTORS)):
        of_capacities = {
            f"dqn_{n}_actors_replay_{capacity}": f"{n} actors, {capacity.upper()}"
            for capacity in CAPACITIES
        }
        looks = _study("green", of_capacities) | looks
    for n in FIGURE_13_TWO_CORES:
        looks[f"dqn_two_cores_{n}_actors"] = Look(f"{n} actors", blue[n])
    for n in FIGURE_3_ACTORS:
        looks[f"dpg_{n}_actors"] = Look(f"Ape-X DPG, {n} actors", blue[n])
    batch_sizes = {f"dqn_batch{size}": f"batches of {size}" for size in OTHER_BATCH_SIZES}
    rates = {f"dqn_lr{rate}": f"learning rate {rate}" for rate in OTHER_LEARNING_RATES}
    return {
        **looks,
        **_study("orange", _EXPONENTS),
        **_study("grey", rates),
        **_study("grey", _DPG_RATES),
        **_study("purple", batch_sizes),
        **_study("purple", _DPG_BATCH_SIZES),
    }


LOOKS = _looks()
