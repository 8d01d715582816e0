"""Examples: strings, bytes, numbers, and the tables that programs keep of them."""

import cmath
import math
import random
import re
import string
import time

import torch
from corpus import V, X, Y, example


# --- strings and bytes ----------------------------------------------------------------------------------
@example("string and bytes methods", X, "b h -> h b")
def einops_like_pattern(x, pattern):
    left, right = (side.split() for side in pattern.split("->"))
    return x.permute([left.index(axis) for axis in right])


@example("string and bytes methods", X, "layer.0.weight")
def dotted_name(x, name):
    prefix, _, last = name.rpartition(".")
    parts = name.split(".")
    if last.endswith("weight") and not prefix.startswith("head"):
        return x * int(parts[1]) + len(prefix)
    return x


@example("string and bytes methods")
def f_strings(x):
    name = f"{x.shape[0]:>4d}|{3.14159:.2f}|{'a'!r}|{len('abc')=}"
    return x + len(name), name, "{:03d} {name}".format(7, name="n"), "%s-%d" % ("a", 3)


@example("string and bytes methods")
def string_methods(x):
    text = "  Hello World "
    found = (
        *(text.strip().lower().replace("o", "0"), text.upper().find("W"), text.title().swapcase()),
        *("a,b,,c".split(","), "-".join(["a", "b"]), "abc"[::-1], "ab" * 2, "abc".zfill(5), "x".ljust(3, ".")),
        *("a1".isalnum(), "A".isupper(), "abc" < "abd", "b" in "abc", ord("a"), chr(98), "aab".count("a")),
    )
    return x + len(found), found


@example("string and bytes methods")
def string_translate(x):
    table = str.maketrans("abc", "xyz")
    return x + 1, "aabbcc".translate(table), string.ascii_lowercase[:3], "a\nb".splitlines(), "café".encode()


@example("string and bytes methods")
def bytes_methods(x):
    data = b"abc" + bytes([1, 2])
    return x * data[0], data[1:3], data.hex(), b"a,b".split(b","), data.decode("latin-1")[0], bytearray(b"ab")


@example("string and bytes methods", X, "conv12")
def regular_expression(x, name):
    match = re.match(r"([a-z]+)(\d+)", name)
    return x * int(match.group(2)), match.group(1)


@example("string and bytes methods", X, "a", also=[(X, "b"), (X, "c")])
def string_argument(x, kind):
    return x + {"a": 1, "b": 2}.get(kind, 0), kind + "!"


# --- numbers --------------------------------------------------------------------------------------------
@example("int/float/complex arithmetic", X, 7, 2.5)
def integers_and_floats(x, n, f):
    numbers = n // 2, n % 4, -n // 2, n**2, n << 1, n & 3, n ^ 1, ~n, divmod(n, 3), f // 1, f % 1, round(f), abs(-f)
    return x * numbers[0] + f, numbers


@example("int/float/complex arithmetic")
def number_conversions(x):
    numbers = int("12"), float("1.5"), int(3.9), bool(0), hex(255), bin(5), (5).bit_length(), (2.5).is_integer()
    return x + numbers[0], numbers, float("inf") > 1, (0.5).as_integer_ratio()


@example("int/float/complex arithmetic")
def complex_numbers(x):
    z = 3 + 4j
    numbers = abs(z), z.conjugate(), z * 1j, z.real, cmath.phase(z), complex(1, 2) == 1 + 2j
    return x * z.imag, numbers


@example("int/float/complex arithmetic")
def complex_tensor(x):
    z = torch.complex(x, x + 1)
    return (z * (2 + 1j)).real, torch.view_as_real(z).sum()


@example("int/float/complex arithmetic", X, 4)
def math_functions(x, n):
    scale = 1 / math.sqrt(n) + math.pi + math.log2(n) + math.floor(2.5) + math.prod([1, 2, 3]) + math.gcd(4, 6)
    return x * scale, math.isclose(0.1 + 0.2, 0.3), math.inf, math.ceil(n / 3), math.comb(5, 2)


@example("int/float/complex arithmetic", X, 0.5, also=[(X, 0.25), (X, 0.125)])
def float_argument_changes(x, rate):
    return x * rate + math.exp(-rate)


@example("int/float/complex arithmetic", X, 1, also=[(X, 2), (X, 3), (X, 4)])
def int_argument_changes(x, n):
    return x * n


@example("int/float/complex arithmetic", X, True, also=[(X, False)])
def bool_argument_changes(x, flag):
    return x + 1 if flag else x - int(flag)


@example("int/float/complex arithmetic")
def min_max_sum_of_numbers(x):
    rows, columns = x.shape
    return x * min(rows, columns) + max([rows, 9]), sum([1, 2], 5), min([3, 1], key=lambda v: -v), pow(2, 5, 7)


@example("int/float/complex arithmetic")
def positional_encoding(x):
    length, width = x.shape
    table = torch.zeros(length, width)
    for k in range(0, width, 2):
        rate = math.exp(-math.log(10000.0) * k / width)
        table[:, k] = torch.sin(torch.arange(length) * rate)
    return x + table


@example("int/float/complex arithmetic")
def slopes_of_alibi(x):
    heads = 2 ** math.floor(math.log2(x.shape[0]))
    base = 2 ** (-(2 ** -(math.log2(heads) - 3)))
    return x * torch.tensor([base ** (k + 1) for k in range(heads)])[:, None]


# --- the program's surroundings -------------------------------------------------------------------------
@example("int/float/complex arithmetic")
def python_random(x):
    return x * random.random() + random.randint(1, 5)


@example("int/float/complex arithmetic")
def python_random_choice(x):
    names = ["a", "b", "c"]
    random.shuffle(names)
    return x + names.index(random.choice(names))


@example("int/float/complex arithmetic")
def time_measured(x):
    start = time.perf_counter()
    y = x * 2
    return y, time.perf_counter() >= start


# --- truth and identity ---------------------------------------------------------------------------------
@example("chained comparisons", X, None, also=[(X, V), (X, Y)])
def none_or_tensor(x, bias):
    if bias is not None:
        x = x + bias
    return x * (bias is None or bias.dim())


@example("chained comparisons", X, [], also=[(X, [1]), (X, [1, 2])])
def truth_of_containers(x, items):
    if not items:
        return x
    return x + (items and items[-1] or 0) + bool({}) + (None or 3)


@example("chained comparisons", X, V)
def identity_of_tensors(x, v):
    y = x
    return x + (x is y) + (x is not v) + (x.shape == v.shape) + any(t is v for t in [x, v])


@example("chained comparisons", X, slice(1, 3), also=[(X, slice(None)), (X, 2)])
def slice_argument(x, where):
    if isinstance(where, slice):
        return x[where] + (where.start or 0)
    return x[where]


@example("chained comparisons", X, ..., also=[(X, None)])
def ellipsis_argument(x, index):
    return x[index] + (index is ...)


@example("hash and equality", X, (1, "a", None, 2.5))
def hash_of_values(x, values):
    return x + len({values, (1, "a", None, 2.5)}), hash(values) == hash((1, "a", None, 2.5))


@example("hash and equality")
def id_and_repr(x):
    seen = {id(x)}
    return x + (id(x) in seen), repr([1, "a"]), str(x.dtype), repr(x.shape)
