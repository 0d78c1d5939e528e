"""One look for a method in all figures, that the colour-blind tell apart (Okabe and Ito 2008)."""

from collections.abc import Mapping, Sequence
import dataclasses
import math
import re

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"

ORDER = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
"""For what has no look of its own."""


@dataclasses.dataclass(frozen=True)
class Style:
    """How a line is drawn: its colour, matplotlib's name of its dashes, its width in points."""

    color: str
    line: str = "-"
    width: float = 1.3


def _d4pg() -> dict[str, Style]:
    """Colours for critic and replay; dashes for N = 1, dots for DDPG, as in the paper."""
    colors = {
        "d3pg_uniform": ORANGE,
        "d3pg_prioritized": VERMILLION,
        "d4pg_uniform": SKY,
        "d4pg_prioritized": BLUE,
    }
    styles = {
        f"{name}_n{n}": Style(color, line)
        for name, color in colors.items()
        for n, line in ((1, "--"), (5, "-"))
    }
    return styles | {
        "d4pg_prioritized_n5": Style(BLUE, width=2.0),
        "d4pg_prioritized_n5_ou": Style(PURPLE),
        "d4pg_prioritized_n5_beta0": Style(GREY),
        "d4pg_mixture_prioritized_n5": Style(GREEN),
        "d4pg_mixture_prioritized_n5_lr5e-05": Style(GREEN, "--"),
        "ddpg": Style(BLACK, ":", 1.6),
    }


def _refer() -> dict[str, Style]:
    """A colour for each kind of replay, whatever the agent, as in the paper's figures 1 to 4.

    In figures 7 and 8 the value that the agent has by itself looks like the agent.
    """
    colors = {"er": BLACK, "per": PURPLE, "refer": BLUE, "refer1": VERMILLION, "refer2": GREEN}
    styles = {
        f"{agent}_{replay}": Style(color, width=2.0 if replay == "refer" else 1.3)
        for agent in ("ddpg", "naf", "vracer")
        for replay, color in colors.items()
    }
    own = ("C4", "D0.1", "N262144", "B256", "F1", "lr0.0001", "A5e-07", "S128", "advantagenone")
    styles |= {f"vracer_refer_{value}": styles["vracer_refer"] for value in own}
    return styles | {
        "ppo": Style(BLACK),
        "acer_lr0.0001": Style(PURPLE, "--"),
        "acer_lr1e-05": Style(PURPLE),
    }


def _aql() -> dict[str, Style]:
    """Dashes for DeepMind Lab's 11 actions, full lines for its 3528."""
    colors = {
        "aql_gaussian": SKY,
        "uniform_q": ORANGE,
        "qt_opt": GREEN,
        "d3pg": VERMILLION,
        "impala": PURPLE,
        "aql_independent": GREY,
        "exact_q": BLACK,
    }
    styles = {"aql": Style(BLUE, width=2.0)} | {name: Style(one) for name, one in colors.items()}
    return styles | {
        f"{name}_11_actions": dataclasses.replace(styles[name], line="--")
        for name in ("aql", "exact_q", "impala")
    }


STYLES: Mapping[str, Style] = {
    **_d4pg(),
    "dqn": Style(BLUE, width=2.0),
    "dqn_uniform": Style(VERMILLION),
    "dqn_two_cores": Style(BLUE, width=2.0),
    "dqn_two_cores_uniform": Style(VERMILLION),
    "dqn_six_epsilons": Style(VERMILLION),
    "reactor": Style(BLUE, width=2.0),
    "reactor_nd": Style(SKY),
    "reactor_uniform": Style(ORANGE),
    "reactor_tislr": Style(VERMILLION),
    "reactor_500m": Style(GREEN),
    "reactor_20_workers": Style(PURPLE),
    **_refer(),
    **_aql(),
}
"""By setting. One whose name goes on, "d4pg_prioritized_n5_lr5e-05", looks like its beginning."""

_LADDER = re.compile(r"_(\d+)_actors(_replay_1m)?$")
_SHADES = ((204, 225, 242), (8, 48, 107)), ((253, 219, 199), (127, 32, 0))
"""Few actors to many, prioritised and uniform: blues and reds, which lightness tells apart."""
_FEWEST, _MOST = 2, 256


def styles(settings: Sequence[str]) -> dict[str, Style]:
    """The look of each setting of a figure.

    A setting that would look like one before it, or like one that has this look by its own name,
    gets the first colour that the figure has not yet, as does one without any.

    Args:
      settings: in the order of the legend.
    """
    chosen: dict[str, Style] = {}
    by_name = {STYLES[setting] for setting in settings if setting in STYLES}
    for setting in settings:
        style = _known(setting)
        is_others = style in by_name and setting not in STYLES
        if style is None or is_others or style in chosen.values():
            used = {one.color for one in chosen.values()} | {
                known.color for other in settings if (known := STYLES.get(other))
            }
            free = [color for color in ORDER if color not in used]
            style = Style(
                free[0] if free else ORDER[len(chosen) % len(ORDER)],
                "-" if free else ("--", ":", "-.")[len(chosen) // len(ORDER) % 3],
            )
        chosen[setting] = style
    return chosen


def _known(setting: str) -> Style | None:
    names = [name for name in STYLES if setting == name or setting.startswith(f"{name}_")]
    best = max(names, key=len, default=None)
    ladder = _LADDER.search(setting)
    if ladder:
        is_uniform = "uniform" in setting
        return Style(_shade(int(ladder[1]), *_SHADES[is_uniform]), "--" if is_uniform else "-")
    return STYLES[best] if best else None


def _shade(actors: int, lightest: tuple[int, ...], darkest: tuple[int, ...]) -> str:
    position = math.log2(max(actors, _FEWEST) / _FEWEST) / math.log2(_MOST / _FEWEST)
    mixed = (light + min(position, 1) * (dark - light) for light, dark in zip(lightest, darkest))
    return "#" + "".join(f"{round(part):02X}" for part in mixed)
