"""What a check says about an answer.

Goes in: a student's function and a list of trials.  Comes out: a Verdict, which a notebook shows as one line.
A check never raises: a notebook with open exercises still runs from top to bottom.
"""

import dataclasses


@dataclasses.dataclass
class Verdict:
    """passed: whether every trial agreed.  message: what was wrong with the first that did not."""

    passed: bool
    message: str

    def __repr__(self):
        return f"{'passed' if self.passed else 'not yet'}: {self.message}"


def judge(trials, praise):
    """Run the trials in order.  Each returns None where the answer is right, and else says what is wrong."""
    for trial in trials:
        try:
            complaint = trial()
        except Exception as error:  # a student's code may raise anything; tell them what and where
            complaint = f"your function raised {type(error).__name__}: {error}"
        if complaint:
            return Verdict(False, complaint)
    return Verdict(True, praise)


def expect(answer, arguments, wanted, about):
    """A trial: `answer(*arguments)` is `wanted`.  about: what this input tries, for the complaint."""

    def trial():
        got = answer(*arguments)
        if got is None:
            return "your function returned None; write its body first"
        if got != wanted:
            return f"{about}: expected {wanted!r}, got {got!r}"
        return None

    return trial
