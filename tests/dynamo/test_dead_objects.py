"""Objects that the program makes and lets go of: what only they held goes with them, while the program runs."""

import contextlib

import pytest
import torch

import minicompile


def test_what_only_a_dead_object_of_the_program_held_dies_with_it():
    @contextlib.contextmanager
    def noting(log):
        log.append("entered")
        try:
            yield
        finally:
            log.append("left")

    class Holder:
        def __init__(self, held):
            self.held = held

    def by_manager(x, log):
        noting(log).__enter__()
        return x + 1, log

    def by_stack(x, log):
        stack = contextlib.ExitStack()
        stack.enter_context(noting(log))
        del stack
        log.append("behind")
        return x + 1, log

    def by_objects(x, log):
        holder = Holder(Holder(noting(log)))
        holder.held.held.__enter__()
        kept, holder = holder.held, None
        log.append("half")
        kept = None  # noqa: F841
        return x + 1, log

    for program in (by_manager, by_stack, by_objects):
        minicompile.reset()
        compiled = minicompile.compile(program, backend="eager")
        expected = program(torch.ones(1), [])[1]
        assert compiled(torch.ones(1), [])[1] == compiled(torch.ones(1), [])[1] == expected, program


class Noted:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("died")


def a_row(x, log):
    for row in zip([Noted(log)], [1]):  # noqa: B007 (it holds the object until the end)
        print(end="")
        log.append("round")
    print(end="")
    log.append("end")
    return x + 1


def a_table(x, log):
    table = {"first": next(iter([Noted(log)]))}  # noqa: F841
    print(end="")
    log.append("end")
    return x + 1


@pytest.mark.parametrize("program", [a_row, a_table])
def test_what_a_new_container_holds_lives_as_long_as_the_container(program):
    expected, found = [], []
    program(torch.ones(1), expected)
    compiled = minicompile.compile(program, backend="eager")
    for _ in range(2):
        compiled(torch.ones(1), found)
    assert found == expected * 2 and expected[-2:] == ["end", "died"]
