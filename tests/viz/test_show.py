"""Listings: whole, or from the line with one text to the next one with another, with the number of their first line."""

import inspect

import pytest

from minicompile import viz
from minicompile.viz import show


def test_a_listing_begins_and_ends_where_its_texts_stand():
    whole = viz.show_source(show.show_text).code.split("\n")
    assert whole == inspect.getsource(show.show_text).rstrip().split("\n")
    part = viz.show_source(show.show_text, "parts = str", "more lines")
    assert part.code.split("\n") == [line[4:] for line in whole[2:5]]
    first = inspect.getsourcelines(show.show_text)[1]
    assert part.caption == f"minicompile/viz/show.py, line {first + 2}"
    assert viz.show_source(show.show_text, last='"""').code.split("\n") == whole[:2]


def test_a_text_that_is_gone_is_an_error():
    with pytest.raises(StopIteration):
        viz.show_source(show.show_text, "nothing like that")
