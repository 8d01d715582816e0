"""What special methods may answer, and what C code makes of their answers."""

import operator

import pytest
import torch
from worlds import same

X = torch.ones(2)


class Two:
    def __index__(self):
        return 2


class Text(str):
    pass


class Number(int):
    pass


ANSWERS = [
    2.5,
    -1,
    2**70,
    Two(),
    True,
    None,
    "a",
    Text("b"),
    b"x",
    [1],
    (),
    Number(-1),
    0,
    1j,
    NotImplemented,
    range(2),
]
USES = {
    "__len__": [len, bool, lambda v: not v, lambda v: 1 if v else 0, operator.length_hint],
    "__bool__": [bool, lambda v: not v, lambda v: 1 if v else 0, lambda v: v and 3, lambda v: any([v])],
    "__hash__": [hash, lambda v: {v: 1}[v], lambda v: (1, v) in {(1, v): 2}],
    "__str__": [str, format, lambda v: f"{v}"],
    "__repr__": [repr, str, lambda v: f"{v!r}"],
    "__format__": [format, lambda v: f"{v:3}", "{}".format],
    "__iter__": [lambda v: type(iter(v)), list, lambda v: 1 in v, lambda v: [*v], sum],
    "__index__": [operator.index, lambda v: [1, 2, 3][v], lambda v: "abc"[v]],
}


@pytest.mark.parametrize("method", USES)
@pytest.mark.filterwarnings("ignore:__index__ returned non-int:DeprecationWarning")
def test_answers_of_special_methods(method):
    def program():
        def f(x, objects):
            found = []
            for made in objects:
                for use in uses:
                    try:
                        result = use(made)
                        found.append((type(result).__name__, str(result)))
                    except (TypeError, ValueError, OverflowError, IndexError) as error:
                        found.append((type(error).__name__, str(error)))
            return x + 1, found

        uses = USES[method]
        answering = [type("Answers", (), {method: lambda self, *rest, value=value: value})() for value in ANSWERS]
        return f, [(X, answering), (X, answering)]

    same(program, fullgraph=False)
