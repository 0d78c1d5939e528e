"""Modules whose failed assertions pytest explains as it does those of tests."""

import pytest

pytest.register_assert_rewrite("actor_critic_checks", "flag_file", "reproduction_readme")
