"""Closures: variables that functions share, as cells of the frame that made them."""

import torch

import minicompile


def test_a_variable_that_is_read_from_an_argument_keeps_it_when_the_argument_is_rebound():
    """Both are cells of the frame: the argument's gets the new list, but not before the other was read from it."""

    def rebound(x, a):
        first, second = a, (a, x + 1)
        a = [first]

        def look():
            return a, first, second

        first = {second[1].numel(): first}
        return look

    def swapped(x, a, b):
        a, b = b, a
        return x * 2, lambda: (a, b)

    x, given = torch.ones(2), [7]
    a, first, second = minicompile.compile(rebound, backend="eager")(x, given)()
    assert a == [given] and a[0] is given and first == {2: given} and first[2] is given
    assert second[0] is given and torch.equal(second[1], x + 1)
    assert minicompile.compile(swapped, backend="eager")(x, 1, 2)[1]() == (2, 1)
