"""Checks of appendix F's claims about failures, on a run of Ape-X DQN whose roles were killed."""

from collections.abc import Callable, Mapping, Sequence
import re

from common.evidence.claims import Evidence, Finding
from common.evidence.effects import Verdict
from common.user_error import UserError

_RECORD = "soak_apex_dqn"
_COMMAND = "write it again with the command under Failures in reproductions/apex/README.md"
_SOON = 60.0
"""Seconds within which learning must resume for a memory to count as "refilled quickly"."""

_Judge = Callable[[list[dict], dict], tuple[bool | None, Mapping[str, float]]]
"""(kills of a role, numbers at the end) -> (whether the claim holds, None if open; its numbers)."""


def actors_fail(evidence: Evidence) -> Finding:
    """Decides whether actors may be interrupted at any time."""

    def judge(kills: list[dict], end: dict) -> tuple[bool, dict[str, float]]:
        holds = (
            all(kill["recovered"] is not None for kill in kills)
            and end["actor_steps"] == end["accepted_from_all_lives"]
            and end["exit_code"] == 0
        )
        return holds, {
            "learner steps at the end": end["learner_steps"],
            "return at the end": end["return"],
            "actor steps counted": end["actor_steps"],
            "transitions accepted": end["accepted_from_all_lives"],
        }

    return _find(evidence, "actor", judge)


def replay_fails(evidence: Evidence) -> Finding:
    """Decides whether a lost replay is refilled quickly."""

    def judge(kills: list[dict], end: dict) -> tuple[bool, dict[str, float]]:
        sizes = _sizes(kills)
        holds = (
            bool(sizes)
            and all(after < before for before, after in sizes)
            and all(kill["recovered"] is not None and kill["recovered"] <= _SOON for kill in kills)
        )
        return holds, _named(sizes, "items lost", "items when learning went on")

    return _find(evidence, "replay", judge)


def learner_waits(evidence: Evidence) -> Finding:
    """Decides whether the learner pauses after that until replay has the minimum of data."""

    def judge(kills: list[dict], end: dict) -> tuple[bool | None, dict[str, float]]:
        sizes, least = _sizes(kills), end.get("min_replay_size")
        numbers = _named(sizes, "items lost", "items when learning went on")
        if least is None:
            return None, numbers
        holds = bool(sizes) and min(after for _, after in sizes) >= least
        return holds, {**numbers, "minimum": least}

    return _find(evidence, "replay", judge)


def learner_fails(evidence: Evidence) -> Finding:
    """Decides whether an interrupted learner resumes."""

    def judge(kills: list[dict], end: dict) -> tuple[bool, dict[str, float]]:
        steps = _numbers(kills, r"at step ([\d,]+) or later, resumed at step ([\d,]+)")
        holds = (
            bool(steps)
            and all(resumed > 0 for _, resumed in steps)  # may exceed the last recorded step
            and end["learner_steps"] > max(map(max, steps))
        )
        numbers = _named(steps, "killed at step", "resumed at step")
        return holds, {**numbers, "learner steps at the end": end["learner_steps"]}

    return _find(evidence, "learner", judge)


def _find(evidence: Evidence, role: str, judge: _Judge) -> Finding:
    """Returns the finding about the kills of a role in the record of tests/roles/soak.py."""
    soak, file = evidence.benchmark(_RECORD), f"{_RECORD}.json"
    if soak is None:
        return Finding(Verdict.OPEN, lacks=file)
    try:
        kills = [kill for kill in soak["kills"] if kill["role"] == role]
        if not kills:
            return Finding(Verdict.OPEN, lacks=file)
        back = [kill["recovered"] for kill in kills if kill["recovered"] is not None]
        holds, numbers = judge(kills, soak["end"])
        faults = len(soak.get("wrong", ()))
        verdict = {True: Verdict.HOLDS, False: Verdict.FAILS, None: Verdict.OPEN}
        return Finding(
            Verdict.FAILS if faults else verdict[holds],
            numbers={
                "killed": len(kills),
                "back": len(back),
                "back after s, least": min(back, default=0),
                "back after s, most": max(back, default=0),
                **numbers,
                **({"faults of the run": faults} if faults else {}),
            },
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        path = evidence.benchmarks / file
        raise UserError(f"{path} is not the record of a soak test ({error}): {_COMMAND}") from None


def _sizes(kills: Sequence[dict]) -> list[tuple[int, ...]]:
    """Returns the numbers of items in replay before each kill and at the next update."""
    return _numbers(kills, r"([\d,]+) items, ([\d,]+) when learning went on")


def _numbers(kills: Sequence[dict], pattern: str) -> list[tuple[int, ...]]:
    """Returns the numbers in each kill's note; [] if a note does not match."""
    found = [re.match(pattern, kill["note"]) for kill in kills]
    if not all(found):
        return []
    return [tuple(int(text.replace(",", "")) for text in match.groups()) for match in found]


def _named(pairs: Sequence[tuple[int, ...]], first: str, second: str) -> dict[str, float]:
    """Returns the numbers of each kill by name."""
    return {
        f"{name}, {kill}": number
        for kill, pair in enumerate(pairs, 1)
        for name, number in zip((first, second), pair)
    }
