"""Learning through a served replay computes the same again, and a difference is found.

The other cases of bit_for_bit.py are run by hand, against a checkout before a change.
"""

import json
import pathlib

from bit_for_bit import SERVED, differences
from launched import forked


def test_a_served_run_computes_the_same_again(tmp_path):
    folder = str(pathlib.Path(__file__).parent)
    with forked() as start:
        programs = [
            start(tmp_path / name, "served_pipeline", 150, PYTHONPATH=folder) for name in "ab"
        ]
        assert [program.wait(600) for program in programs] == [0, 0], programs[0].output
    first, second = (json.loads(program.output.splitlines()[-1]) for program in programs)
    assert first == second
    assert set(first) == {"episodes", "metrics", "memory", "variables"}


def test_a_checkout_that_computes_something_else_differs_in_its_parts(tmp_path):
    for name, variables in (("before", "12ab"), ("after", "34cd")):
        script = tmp_path / name / "tests/roles/served_pipeline.py"
        script.parent.mkdir(parents=True)
        script.write_text(f"print({json.dumps({'episodes': '56ef', 'variables': variables})!r})")
    assert differences(SERVED, tmp_path / "after", tmp_path / "before") == ["variables"]
