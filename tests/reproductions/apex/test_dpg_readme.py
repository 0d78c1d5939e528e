"""The README of Ape-X DPG says what the code says."""

from reproduction_readme import Readme

from reproductions.apex.dpg import config as config_lib
from reproductions.apex.dpg import settings

README = Readme("apex/dpg")


def test_table_of_hyperparameters_is_the_configuration():
    README.check_hyperparameters(config_lib.DPGConfig)
    assert f"N = {config_lib.NUM_ACTORS} " in README.section("Hyperparameters")


def test_flags_in_the_text_exist():
    README.check_flags(config_lib.DPGConfig, settings.SETTINGS.names)


def test_every_place_in_the_maps_exists():
    assert README.check_places("Equations and where they are") > 20


def test_every_file_in_the_list_exists():
    README.check_files()


def test_every_test_that_is_named_exists():
    assert len(README.check_tests()) > 8
