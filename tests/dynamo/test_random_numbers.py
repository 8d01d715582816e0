"""Python's random numbers in captured functions: the same draws, in the same order, as in eager."""

import random

import pytest
import torch

import minicompile
from minicompile.testing import differences

X = torch.arange(6.0).reshape(2, 3)


def compare(run, *args, backend="eager", graphs=None, breaks=None, calls=3):
    """Results and the generator's state after each call are eager's."""
    outcomes = []
    for function in (run, minicompile.compile(run, backend=backend)):
        random.seed(7)
        outcomes.append([(function(*args), random.getstate()) for _ in range(calls)])
    assert not differences(*outcomes)
    stats = minicompile.record.stats()
    assert graphs is None or stats["graphs"] == graphs
    assert breaks is None or stats["graph_breaks"] == breaks


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_numbers_are_inputs_of_one_graph(backend):
    def run(x):
        random.random()  # nobody uses it
        y = x * random.random() + random.randint(1, 5)
        number = random.uniform(2, 3)
        return y - number, number, random.getrandbits(8)

    compare(run, X, backend=backend, graphs=1, breaks=0)


def test_in_a_loop_and_in_a_callee():
    def noise(scale):
        return (random.random() - 0.5) * scale

    def run(x):
        for _ in range(3):
            x = x + noise(0.1)
        return x, [random.randrange(10) for _ in range(2)]

    compare(run, X, graphs=1, breaks=0)


def test_without_a_graph():
    def run(x):
        return random.random(), random.randint(1, 3)

    compare(run, X, graphs=0, breaks=0)


def test_around_a_break():
    def run(x):
        a = random.random()
        y = x * a
        minicompile.graph_break()
        b = random.random()
        return y + b, a, b

    compare(run, X, graphs=2)


def test_who_needs_to_know_breaks():
    def run(x):
        n = random.randint(1, 3)
        if random.random() > 0.5:
            x = x + 1
        return x.repeat(n, 1), [10, 20, 30, 40][n], f"{n}", random.choice("abc"), torch.zeros(n)

    compare(run, X, calls=6)


def test_shuffle_and_sample():
    def run(x):
        items = [1, 2, 3, 4]
        random.shuffle(items)
        return x + items[0], random.sample(items, 2), random.gauss(0, 1)

    compare(run, X)


def test_a_generator_of_the_programs_own():
    def run(x):
        generator = random.Random(3)
        numbers = generator.random(), generator.randint(1, 6), generator.gauss(0, 1), generator.sample(range(9), 3)
        generator.shuffle(items := [1, 2, 3])
        return x * numbers[0], numbers, items, generator

    expected, found = run(X), minicompile.compile(run, backend="eager", fullgraph=True)(X)
    assert not differences(expected[:3], found[:3])
    assert type(found[3]) is random.Random and found[3].getstate() == expected[3].getstate()
    assert found[3].gauss(0, 1) == expected[3].gauss(0, 1)


def test_a_generator_from_outside():
    generators = random.Random(5), random.Random(5)

    def run(x, generator):
        return x + generator.random(), generator.randrange(100)

    compiled = minicompile.compile(run, backend="eager", fullgraph=True)
    for _ in range(3):
        assert not differences(run(X, generators[0]), compiled(X, generators[1]))
    assert generators[0].getstate() == generators[1].getstate()


def test_seeds():
    def run(x):
        random.seed(4)
        return x + random.random(), random.Random("text").random()

    compare(run, X)


def test_an_empty_range():
    def run(x):
        try:
            random.randrange(3, 3)
        except ValueError as error:
            return x + 1, str(error)[:11]

    compare(run, X)


@pytest.mark.graph_errors
def test_a_graph_that_raises_draws_as_often_as_eager():
    def drawn(x, place):
        noisy = torch.nn.functional.rrelu(x, training=True)
        return noisy + torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5), x[place]

    numbers = []
    for function in (drawn, minicompile.compile(drawn, backend="eager")):
        torch.manual_seed(0)
        with pytest.raises(IndexError):
            function(torch.ones(1, 4, 8), torch.tensor([3]))
        numbers.append(torch.rand(1).item())
    assert numbers[0] == numbers[1]


def test_a_generator_may_have_methods_of_its_own():
    """Which its other methods call: none of these is a draw then."""

    def f(x, generator):
        return x + 1, generator.random(), generator.randint(0, 9), generator.uniform(1, 3)

    compiled = minicompile.compile(f, backend="eager")
    for own in (None, [0.5, 0.25, 0.125], [0.75, 0.0, 0.5], None):
        results = []
        for function in (f, compiled):
            generator = random.Random(3)
            if own is not None:
                generator.random = own[:].pop
            results.append((function(torch.ones(1), generator)[1:], generator.getstate()))
        assert results[0] == results[1]


@pytest.mark.graph_errors
def test_a_graph_that_raises_after_a_draw_draws_the_same_again():
    """The frame starts again in eager, with generators that stand where they stood."""

    def program(x, place, own, log):
        log.append((random.random(), own.randint(0, 9)))
        try:
            return x[place] * log[-1][0]
        except IndexError:
            return "caught", own.gauss(0, 1), random.random()

    results = []
    for function in (program, minicompile.compile(program, backend="eager")):
        random.seed(7)
        own, log = random.Random(3), []
        found = [function(torch.ones(2), torch.tensor([place]), own, log) for place in (1, 9, 0, 7, 7)]
        results.append((str(found), log, random.random(), own.random()))
    assert results[0] == results[1]


def test_a_generator_that_the_program_gives_a_method():
    def f(x, generator, numbers):
        generator.random = numbers[:].pop
        own = random.Random(1)
        own.random = numbers[1:].pop
        return x + 1, [generator.uniform(1, 3), generator.gauss(0, 1), own.uniform(1, 3), own.expovariate(2.0)]

    results = [
        g(torch.ones(1), random.Random(3), [0.5, 0.25, 0.125, 0.75])[1:]
        for g in (f, minicompile.compile(f, backend="eager"))
    ]
    assert results[0] == results[1]
