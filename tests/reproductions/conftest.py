"""Modules whose failed assertions pytest explains as it does those of tests."""

import pytest

pytest.register_assert_rewrite("float64_networks", "reproduction_readme", "target_copies")
