"""What a user reads when guards fail: which, what was there and what is there now, and what helps.

Goes in: a guard that does not hold; or the guard checks of all entries of a frame, and its arguments.
Comes out: a GuardFailure; or a RecompileReason, with one for each entry.
Mirrors `get_and_maybe_log_recompilation_reasons` in `torch/_dynamo/guards.py`.  Taught in chapter 04.
"""

import dataclasses
import itertools

from .guard_checks import TENSOR_PROPERTY_NAMES, spelled

KEEP = "keep that value as it is from call to call"
MENDS = {  # kind of guard -> what to do where it keeps failing
    "equals": "make that value a tensor, or keep it constant",
    "is": "make that object once, outside of the calls",
    "code": "define that function once, outside of the calls",
    "tensor": "convert that tensor before the call, so that all calls get one kind",
    "length": "keep its length, or put its tensors together into one with torch.stack",
    "keys": "keep its keys and their order",
    "unwritten": "write to parameters before the first call, or set minicompile.config.freeze = False",
}


@dataclasses.dataclass
class GuardFailure:
    """What did not hold, what it was during capture and what it is now, and the user's line that needed it.

    subject: of what it is a fact, where that is a value.
    """

    what: str
    old: object
    new: object
    user_location: str = ""
    mend: str = KEEP
    subject: str = ""

    def __str__(self):
        return self.text(self.what, [spelled(self.old)])

    def text(self, what, olds):
        where = f" ({self.user_location})" if self.user_location else ""
        return f"{what}: was {', '.join(olds)}, is {spelled(self.new)}{where}"


def tensor_difference(guard, properties):
    """The GuardFailure of the first property that differs; of sizes and strides, the first number."""
    for name, old, new in zip(TENSOR_PROPERTY_NAMES, guard.expected, properties):
        place = f"{guard.source.name}.{name}"
        if name in ("shape", "stride") and old is not None and new is not None and len(old) == len(new):
            for index, (a, b) in enumerate(zip(old, new)):
                if a is not None and a != b:
                    place += f"[{index}]" if name == "shape" else f"({index})"
                    mend = f"minicompile.mark_dynamic({guard.source.name}, {index}) or dynamic=True makes one graph do"
                    return GuardFailure(place, a, b, guard.user_location, mend, place)
        elif old != new:
            return GuardFailure(place, old, new, guard.user_location, MENDS["tensor"], place)
    raise AssertionError(f"{guard} holds")


@dataclasses.dataclass
class RecompileReason:
    """Why none of the entries of a frame fits: [(number of the entry, its GuardFailure)], newest first.

    As text: the failure of the newest entry, then the older ones; neighbours that fail for one value share a line.
    """

    failures: list

    def __str__(self):
        (_, newest), *older = self.failures
        lines = [str(newest)]
        for (subject, _), group in itertools.groupby(older, lambda each: (each[1].subject, each[1].user_location)):
            for several in [list(group)] if subject else [[each] for each in group]:
                numbers, failures = zip(*several)
                what = failures[0].what if len(several) == 1 else subject
                olds = dict.fromkeys(spelled(failure.old) for failure in failures)
                entries = "entry" if len(several) == 1 else "entries"
                lines.append(f"    {entries} {', '.join(map(str, numbers))}: {failures[0].text(what, olds)}")
        return "\n".join(lines)


def recompile_reason(checks, function, arguments):
    """checks: of all entries, oldest first.  None where there is none that fails."""
    failures = [(n, check.guards.first_failure(function, arguments)) for n, check in enumerate(checks, 1)]
    found = [(number, failure) for number, failure in reversed(failures) if failure is not None]
    return RecompileReason(found) if found else None
