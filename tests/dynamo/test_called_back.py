"""Constants whose classes have special methods of the program: C code asks for those each time, not once at capture."""

import enum

import pytest
import torch

import minicompile

LOG = []
ANSWERS = {
    "__iter__": lambda: iter(["1", "2"]),
    "__len__": lambda: 2,
    "__contains__": lambda: True,
    "__bool__": lambda: False,
    "__bytes__": lambda: b"ab",
    **{f"__{name}__": lambda: 1 for name in "index int round abs floor ceil trunc".split()},
    **{f"__{name}__": lambda: 3 for name in "add radd mul rmul rmod or ror divmod rdivmod neg pow rpow".split()},
    **{f"__{name}__": lambda: True for name in ("lt", "gt")},
    **{"__float__": lambda: 1.0, "__complex__": lambda: 1j, "__fspath__": lambda: "p", "__getitem__": lambda: "q"},
}


def logging(name):
    def method(self, *rest):
        LOG.append(name)
        return ANSWERS[name]()

    return method


METHODS = {name: logging(name) for name in ANSWERS}
Meta = type("Meta", (type,), METHODS)
Asked = Meta("Asked", (), {})


class Member(enum.Enum):
    ONE = 1

    locals().update(METHODS)


class Level(enum.IntEnum):
    """Its methods are those of int, but for one."""

    LOW = 1

    def __len__(self):
        return 3


CALLS = """
",".join(v) ; "abc"[v] ; "abc".find("b", v) ; "abc".center(v) ; "abc".replace("a", "b", v) ; "abc".split(None, v)
int(v) ; float(v) ; complex(v) ; bytes(v) ; bytearray(v) ; bool(v) ; not v ; dict.fromkeys(v) ; len(v) ; 1 in v
v + 1 ; v * 2 ; 2 * v ; [1] * v ; v | 1 ; 1 | v ; -v ; v ** 2 ; divmod(v, 2) ; v < 1 ; 1 < v ; v[1] ; sum([1, v])
round(v) ; abs(v) ; range(v) ; [1, 2, 3][v] ; (1, 2)[v] ; "ab" * v ; operator.index(v) ; math.floor(v) ; math.sqrt(v)
math.gcd(v, 2) ; math.prod(v) ; math.hypot(v, v) ; chr(v) ; bin(v) ; (5).to_bytes(v, "little") ; "a".translate(v)
sorted([v, v]) ; min(v, v) ; any(v) ; all(v) ; enumerate(v) and 1 ; list(zip(v, v)) ; list(map(str, v)) ; set(v)
re.sub("a", "b", "a", count=v) ; slice(v).indices(5) ; range(5)[v] ; round(2.5, v) ; int("1", v) ; bytes([v])
functools.reduce(operator.add, v) ; list(itertools.repeat(1, v)) ; [1, 2].pop(v) ; [1].insert(v, 2) ; os.fspath(v)
"""


@pytest.mark.parametrize("call", [row.strip() for line in CALLS.strip().splitlines() for row in line.split(" ; ")])
def test_a_method_of_the_program_runs_each_time(call):
    source = f"def program(v, x):\n    y = x + 1\n    try:\n        r = {call}\n"
    source += "    except Exception as error:\n        r = type(error), str(error)\n    return r, y"
    namespace = {"os": __import__("os"), **globals()}
    exec(source, namespace)
    program = namespace["program"]
    for value in (Asked, Member.ONE, Level.LOW):
        minicompile.reset()
        seen = []
        for function in (program, *[minicompile.compile(program, backend="eager")] * 2):
            LOG.clear()
            seen.append((str(function(value, torch.ones(2))), list(LOG)))
        assert seen[1] == seen[0] and seen[2] == seen[0], value


def test_a_member_with_methods_of_its_own_is_a_number_without_a_break():
    def program(x):
        y = x[Level.LOW] + [1, 2][Level.LOW] + (Level.LOW + 1) * (3 - Level.LOW)
        return y, Level.LOW == 1, 1 in (Level.LOW,)

    x = torch.ones(3)
    assert minicompile.compile(program, fullgraph=True)(x) == program(x)
