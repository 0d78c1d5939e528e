"""Modules whose failed assertions pytest explains as it does those of tests."""

import pytest

pytest.register_assert_rewrite("flag_file", "kubernetes_file", "reproduction_readme")
