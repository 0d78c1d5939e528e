"""docs/benchmarks.md and other pages show the numbers of results/benchmarks."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/benchmarks.md").read_text()
APEX = " ".join((ROOT / "reproductions/apex/README.md").read_text().split())
MEASURED = {
    row["name"]: row
    for file in ("two_cores.json", "workers.json", "aql.json", "refer.json")
    for row in json.loads((ROOT / "results/benchmarks" / file).read_text())
}
SHOWN = re.findall(r"^\| `([\w/]+)` \| [^|]+ \| (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.M)


def is_rounded(text, value):
    """Whether `text`, such as "1,350" or "2.57", is `value` rounded to as many places."""
    number = text.replace(",", "")
    return f"{value:.{len(number.partition('.')[2])}f}" == number


def test_every_row_is_shown_once():
    assert sorted(name for name, *_ in SHOWN) == sorted(MEASURED)


@pytest.mark.parametrize("name, ours, peer, ratio", SHOWN, ids=[name for name, *_ in SHOWN])
def test_a_row_is_the_one_that_was_measured(name, ours, peer, ratio):
    row = MEASURED[name]
    value, _, unit = ours.partition(" ")
    assert is_rounded(value, row["value"]) and unit == row["unit"]
    if row["peer"] is None:
        assert (peer, ratio) == ("-", "-")
    else:
        whose, _, number = peer.partition(": ")
        assert whose == row["peer"]
        assert is_rounded(number, row["peer_value"]) and is_rounded(ratio, row["ratio"])


def test_decoding_is_two_thirds_of_what_the_image_learner_loses():
    updates, alone = (MEASURED["learner/apex_dqn_batch512"][key] for key in ("value", "peer_value"))
    lost = 1 / updates - 1 / alone
    assert f"takes {1000 * lost:.0f} ms longer" in PAGE
    assert 1024 / MEASURED["image_replay/decode"]["value"] / lost == pytest.approx(2 / 3, abs=0.05)


@pytest.mark.parametrize(
    "sentence, name",
    [
        ("a process of 32 games made {:,.0f} ", "actor/pong_wall"),
        ("served {:.0f} rounds a second", "image_replay/service_loop"),
        ("It makes {:.1f} updates a second", "learner/apex_dqn_batch512"),
        ("{:.1f} in bfloat16", "learner/apex_dqn_batch512_bfloat16"),
        ("a core that decodes {:,.0f}", "image_replay/decode"),
    ],
)
def test_apex_cites_what_was_measured(sentence, name):
    assert sentence.format(MEASURED[name]["value"]) in APEX
