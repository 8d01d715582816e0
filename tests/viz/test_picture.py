"""A picture has a description, and fits a page."""

import pytest

from minicompile.viz.picture import PAGE, Picture


@pytest.mark.parametrize("unit, pixels", [("", 1), ("px", 1), ("pt", 4 / 3)])
def test_what_is_wider_than_a_page_is_scaled(unit, pixels):
    wide = f'<svg width="1200{unit}" height="300{unit}" viewBox="0 0 1200 300"></svg>'
    assert f'<svg width="{PAGE}" height="{PAGE // 4}" viewBox="0 0 1200 300"' in Picture(wide, "text", "alt").svg
    width = int(PAGE / pixels)
    narrow = f'<svg width="{width}{unit}" height="30{unit}" viewBox="0 0 {width} 30"></svg>'
    assert Picture(narrow, "text", "alt").svg.startswith(narrow[:-7])


def test_the_description_is_the_title():
    svg = Picture('<svg width="10" height="10"><g/></svg>', "text", "a < b").svg
    assert svg.endswith("><title>a &lt; b</title><g/></svg>") and 'role="img"' in svg
