"""Appendix F's claims on failures, decided by a run of Ape-X DQN whose roles were killed."""

from collections.abc import Callable, Sequence
import re

from common.experiments.claims import Basis, Check, Claim, Evidence
from common.reporting.user_error import UserError

_RECORD = "soak_apex_dqn"
_COMMAND = "the command under Failures in reproductions/apex/README.md"
_SOON = 60.0
"""Seconds: a memory is "refilled quickly" if learning goes on by then."""

_Judge = Callable[[list[dict], dict], tuple[bool | None, str]]
"""A function of the kills of a role and the numbers at the end: the verdict, and the evidence."""


def _check(role: str, judge: _Judge, rule: str) -> Check:
    """Returns a check of the kills of a role in the record that tests/roles/soak.py wrote."""

    def find(evidence: Evidence) -> tuple[bool | None, str]:
        soak = evidence.benchmark(_RECORD)
        if soak is None:
            return None, f"No record: {_COMMAND}."
        try:
            kills = [kill for kill in soak["kills"] if kill["role"] == role]
            if not kills:
                return None, f"No kills in the record: {_COMMAND}."
            back = [kill["recovered"] for kill in kills if kill["recovered"] is not None]
            holds, words = judge(kills, soak["end"])
            if wrong := "; ".join(soak.get("wrong", ())):
                holds, words = False, f"{words}; the run itself went wrong: {wrong}"
            return holds, (
                f"{len(kills)} killed, {len(back)} back after "
                f"{min(back, default=0):.0f} to {max(back, default=0):.0f} s; {words} "
                f"(results/benchmarks/{_RECORD}.json)."
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            path = evidence.benchmarks / f"{_RECORD}.json"
            raise UserError(f"{path}: is no record of a soak ({error}): {_COMMAND}") from None

    return Check(find, rule, Basis.BENCHMARK)


def _numbers(kills: Sequence[dict], pattern: str) -> list[tuple[int, ...]]:
    """Returns the numbers in the kills' notes, a tuple a group; [] if one does not match."""
    found = [re.match(pattern, kill["note"]) for kill in kills]
    if not all(found):
        return []
    return list(zip(*(tuple(int(text.replace(",", "")) for text in one.groups()) for one in found)))


def _memories(kills: Sequence[dict]) -> tuple[list[tuple[int, ...]], str]:
    """Returns the items before the kills and at the next update, and these in words."""
    sizes = _numbers(kills, r"([\d,]+) items, ([\d,]+) when learning went on")
    if not sizes:
        return [], "learning did not go on after each"
    return sizes, (
        f"memories of {_listed(sizes[0])} were lost, learning went on with {_listed(sizes[1])}"
    )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


def _actors_may_die(kills: list[dict], end: dict) -> tuple[bool, str]:
    holds = (
        all(kill["recovered"] is not None for kill in kills)
        and end["actor_steps"] == end["accepted_from_all_lives"]
        and end["exit_code"] == 0
    )
    return holds, (
        f"learning went on to {end['learner_steps']:,} steps and a return of "
        f"{end['return']:.0f}; {end['actor_steps']:,} actor steps counted, "
        f"{end['accepted_from_all_lives']:,} transitions accepted"
    )


def _replay_is_refilled(kills: list[dict], end: dict) -> tuple[bool, str]:
    sizes, words = _memories(kills)
    holds = (
        bool(sizes)
        and all(after < before for before, after in zip(*sizes))
        and all(kill["recovered"] is not None and kill["recovered"] <= _SOON for kill in kills)
    )
    return holds, words


def _learner_waits(kills: list[dict], end: dict) -> tuple[bool | None, str]:
    sizes, words = _memories(kills)
    least = end.get("min_replay_size")
    if least is None:
        return None, f"{words}; the record does not say the minimum: {_COMMAND}"
    return bool(sizes) and min(sizes[1]) >= least, f"{words}; the minimum is {least:,}"


def _learner_resumes(kills: list[dict], end: dict) -> tuple[bool, str]:
    steps = _numbers(kills, r"at step ([\d,]+) or later, resumed at step ([\d,]+)")
    if not steps:
        return False, "not each resumed"
    killed_at, resumed_at = steps
    holds = all(0 < resumed <= killed for killed, resumed in zip(killed_at, resumed_at)) and end[
        "learner_steps"
    ] > max(killed_at)
    return holds, (
        f"at steps {_listed(killed_at)}, resumed at {_listed(resumed_at)}, ended at "
        f"{end['learner_steps']:,}"
    )


FAILURE_CLAIMS = (
    Claim(
        "actors_fail",
        "Actors may be interrupted at any time; this does not prevent continued learning.",
        "appendix F",
        "",
        _check(
            "actor",
            _actors_may_die,
            "in the soak each killed actor acts again, the run ends well and its counts agree",
        ),
    ),
    Claim(
        "replay_fails",
        "If the replay is interrupted its data is discarded, and it is refilled quickly.",
        "appendix F",
        "",
        _check(
            "replay",
            _replay_is_refilled,
            f"in the soak learning goes on within {_SOON:.0f} s "
            "of each kill, from a smaller memory",
        ),
    ),
    Claim(
        "learner_waits",
        "Then the learner pauses until the minimum amount of data is there again.",
        "appendix F",
        "",
        _check(
            "replay",
            _learner_waits,
            "in the soak the memory that learning goes on with has the minimum of the run",
        ),
    ),
    Claim(
        "learner_fails",
        "If the learner is interrupted, progress stalls until it resumes.",
        "appendix F",
        "",
        _check(
            "learner",
            _learner_resumes,
            "in the soak it resumes each time at a step that it had reached, and goes on beyond",
        ),
    ),
)
