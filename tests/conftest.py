"""What all tests share."""

import gc

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Leaves what tests have imported, a million objects, to no collection of garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def eager():
    """Runs functions without a graph, whose tracing takes longer than a hundred small updates."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
