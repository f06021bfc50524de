"""Attacks of strangers leave a server quick, small and right; see ``server_attacks``."""

import json
from pathlib import Path

import pytest

from faults.server_attacks import ATTACKS, campaign


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs /proc")
def test_attacks(tmp_path):
    records = list(campaign(tmp_path))
    assert len(records) == len(ATTACKS) + 1
    wrong = [record for record in records if record["wrong"]]
    assert not wrong, json.dumps(wrong, indent=1)
