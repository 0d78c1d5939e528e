"""Learning through a served replay gives what is recorded, until a commit says why not.

The other cases of bit_for_bit.py are run by hand, before and after a change.
"""

import json

from bit_for_bit import RECORD, SERVED, hashes
import pytest


def test_a_served_run_computes_what_is_recorded():
    record, now = json.loads(RECORD.read_text())[SERVED], hashes(SERVED)
    if now["arithmetic"] != record["arithmetic"]:
        pytest.skip("plain arithmetic has other results on this machine than on the record's")
    assert now == record, (
        "if it is meant to: tests/roles/bit_for_bit.py --record, and why in the commit"
    )
