"""Closures: variables that functions share, as cells of the frame that made them."""

import torch
from worlds import same

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


def test_an_own_cell_that_is_emptied_is_an_unbound_local_wherever_it_is_read():
    """Behind breaks it is a free variable of what goes on; also in a handler that eager came to, and of a callee."""

    def program():
        def told(read):
            try:
                read()
            except NameError as error:
                return type(error), str(error), type(error.__context__)

        def empty(cell):
            del cell.cell_contents

        def f(x):
            value, found = x + 1, []
            read = lambda: value  # noqa: E731, F821
            minicompile.graph_break()
            empty(read.__closure__[0])
            found.append(told(read))
            try:
                {}["missing"]
            except KeyError:
                minicompile.graph_break()
                try:
                    value  # noqa: B018
                except UnboundLocalError as error:
                    found.append((str(error), type(error.__context__)))
            minicompile.graph_break()
            try:
                del value
            except UnboundLocalError as error:
                found.append((str(error), type(error.__context__)))
            return x * 2, found

        def outer(x):
            return f(x)[1], told(lambda: f(x) and missing)  # noqa: F821

        return outer, [(torch.ones(2),), (torch.ones(2),)]

    same(program, fullgraph=False)
