"""Objects that the program makes and lets go of: what only they held goes with them, while the program runs."""

import contextlib

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
