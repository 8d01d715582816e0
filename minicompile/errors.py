"""The exceptions that a user of minicompile can see.

Goes in: the reason why something could not be compiled.  Comes out: an exception that names its kind, explains it,
says how to mend it and points at the user's line.  Mirrors `torch/_dynamo/exc.py`.  Taught in chapter 05.
"""


class MinicompileError(RuntimeError):
    """Base class of everything that minicompile itself raises."""


class Unsupported(MinicompileError):
    """Something that capture cannot hold: the graph breaks here (or, with `fullgraph=True`, this is raised).

    kind: a short fixed name that reports count by, such as "data-dependent branch".
    explanation: what happened, in one sentence.  hint: what the user can do about it.
    user_location: "file.py:12 in forward", filled in by the translator that was running.
    """

    def __init__(self, kind, explanation, hint="", user_location=None):
        super().__init__(kind)
        self.kind, self.explanation, self.hint, self.user_location = kind, explanation, hint, user_location

    def __str__(self):
        where = f"\n  at: {self.user_location}" if self.user_location else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{self.kind}: {self.explanation}{hint}{where}"


class InternalError(MinicompileError):
    """A bug in minicompile, with the stage and the user's line.  Raised only under `config.strict`."""


class BackendCompilerFailed(MinicompileError):
    """The backend raised while it compiled a captured graph."""


class InvalidBackend(MinicompileError):
    """An unknown backend or mode name; the message lists the known ones."""


class CompilerNotFound(MinicompileError):
    """No C++ compiler; the message names what to install.  Code generation then falls back to the ATen interpreter."""
