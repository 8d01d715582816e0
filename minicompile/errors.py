"""The exceptions that a user of minicompile can see.

Goes in: the reason why something could not be compiled.  Comes out: an exception that names its kind, explains it,
says how to mend it and points at the user's line.  Mirrors `torch/_dynamo/exc.py`.  Taught in chapter 05.
"""

import dataclasses
import linecache


class MinicompileError(RuntimeError):
    """Base class of everything that minicompile itself raises."""


@dataclasses.dataclass(frozen=True)
class UserPlace:
    """Where an instruction of the user's code stands.  positions: (line, end line, column, end column) or None each."""

    filename: str
    function: str
    positions: tuple

    def __str__(self):
        """`file.py:12 in forward`; a notebook's cell has no file that anybody could open."""
        name = "notebook cell" if "ipykernel_" in self.filename else self.filename
        return f"{name}:{self.positions[0]} in {self.function}"

    def lines(self):
        """The location, the source line, and carets under the part that the instruction is for."""
        line, end_line, start, end = self.positions
        source = linecache.getline(self.filename, line).rstrip()
        code = source.lstrip()
        if not code:
            return [str(self)]
        shown = [str(self), f"    {code}"]
        if start is not None:
            encoded = source.encode()  # columns count bytes
            before, part = encoded[:start].decode(), encoded[start : end if line == end_line else None].decode()
            if 0 < len(part.strip()) < len(code):
                shown.append("    " + " " * (len(before) - len(source) + len(code)) + "^" * len(part))
        return shown


class Unsupported(MinicompileError):
    """Something that capture cannot hold: the graph breaks here (or, with `fullgraph=True`, this is raised).

    kind: a short fixed name that reports count by, such as "data-dependent branch".
    explanation: what happened, in one sentence.  hint: what the user can do about it.
    places: a UserPlace for each frame that was running, the innermost first, filled in by the translators.
    """

    def __init__(self, kind, explanation, hint=""):
        super().__init__(kind)
        self.kind, self.explanation, self.hint, self.places = kind, explanation, hint, []
        self.step = None  # before which step of the capture the graph can break
        self.instruction = None  # of that step, where it is known

    @property
    def user_location(self):
        """`file.py:12 in forward`, or None where it is not known."""
        return str(self.places[0]) if self.places else None

    def __str__(self):
        lines = [f"{self.kind}: {self.explanation}"]
        lines += [f"  hint: {self.hint}"] if self.hint else []
        for depth, place in enumerate(self.places):
            if 4 <= depth < len(self.places) - 3:
                lines += [f"  ... {len(self.places) - 7} more calls"] if depth == 4 else []
                continue
            words = "called from" if depth else "at"
            first, *source = place.lines()
            lines += [f"  {words}: {first}", *(f"  {line}" for line in source)]
        return "\n".join(lines)


class InternalError(MinicompileError):
    """A bug in minicompile, with the stage and the user's line.  Raised only under `config.strict`."""


class ConstraintViolated(MinicompileError):
    """A dimension that `mark_dynamic` was asked for turned out to be one number; the message says which and where."""


class BackendCompilerFailed(MinicompileError):
    """The backend raised while it compiled a captured graph."""


class InvalidBackend(MinicompileError):
    """An unknown backend or mode name; the message lists the known ones."""


class CompilerNotFound(MinicompileError):
    """No C++ compiler; the message names what to install.  Code generation then falls back to the ATen interpreter."""
