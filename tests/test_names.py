"""Names with arguments."""

import pytest

from common.names import arguments_of, split, with_arguments


@pytest.mark.parametrize(
    "text, arguments",
    [
        ("", {}),
        ("gravity=-5,wind=true", {"gravity": -5, "wind": True}),
        ("mode=fast, name='a, b(c)', none=null", {"mode": "fast", "name": "a, b(c)", "none": None}),
        ("sizes=(1, 2),nest={'a': [0.5]}", {"sizes": (1, 2), "nest": {"a": [0.5]}}),
        ('{"gravity": -5.5, "modes": ["a"], "wind": false}', None),
    ],
)
def test_arguments_survive_a_name(text, arguments):
    found = arguments_of(text)
    if arguments is not None:
        assert found == arguments
    name = with_arguments("gym:Own-v0", text)
    assert split(name) == ("gym:Own-v0", found)
    assert with_arguments(name, {}) == name


def test_later_arguments_replace_earlier_ones():
    name = with_arguments("gym:Own-v0(a=1, b=2)", {"b": 3, "c": [None]})
    assert name == "gym:Own-v0(a=1, b=3, c=[None])"


@pytest.mark.parametrize(
    "text", ["3", "a=", "a=f(1)", "**a", "a=1)(b=2", "{", "[1]", "a=1; b", "a b", "lambda: 0"]
)
def test_what_is_no_list_of_arguments(text):
    with pytest.raises(ValueError, match="arguments look like"):
        arguments_of(text)
    with pytest.raises(ValueError):
        split("gym:Own-v0(a=1")


@pytest.mark.parametrize("value", [object(), float("inf"), print, {1, 2}.__class__])
def test_values_that_no_other_process_can_read(value):
    with pytest.raises(ValueError, match="must be numbers, strings, true"):
        with_arguments("gym:Own-v0", {"a": value})
