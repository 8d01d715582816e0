"""Examples: exceptions: raised and caught during capture, their order, cause and context."""

from corpus import X, example

scale = 2.0
calls = 0


# --- exceptions -----------------------------------------------------------------------------------------
class ShapeError(Exception):
    def __init__(self, expected, found):
        super().__init__(f"expected {expected}, found {found}")
        self.expected = expected


def need_columns(x, n):
    if x.shape[1] != n:
        raise ShapeError(n, x.shape[1])
    return x


@example("user exceptions")
def user_exception_caught(x):
    try:
        need_columns(x, 5)
    except ShapeError as error:
        return x + error.expected, str(error)
    return x


@example("user exceptions")
def user_exception_from_helper_reraised(x):
    try:
        try:
            need_columns(x, 5)
        except ShapeError as error:
            raise ValueError("bad input") from error
    except ValueError as error:
        return x * 2, type(error.__cause__).__name__
    return x


@example("user exceptions", X, 5)
def user_exception_leaves(x, n):
    y = x + 1
    return need_columns(y, n)


@example("KeyError", X, {"a": 1}, also=[(X, {"b": 4})])
def key_error_default(x, table):
    try:
        return x * table["b"]
    except KeyError as error:
        return x, error.args


@example("StopIteration")
def stop_iteration_caught(x):
    iterator = iter([1, 2])
    try:
        while True:
            x = x + next(iterator)
    except StopIteration:
        return x


class Bag:
    size = 3


@example("AttributeError for hasattr", X, Bag())
def hasattr_of_object(x, bag):
    if hasattr(bag, "weight"):
        return x
    return x * getattr(bag, "size", 0) + getattr(bag, "missing", 1)


@example("AttributeError for hasattr", X, Bag())
def attribute_error_caught(x, bag):
    try:
        return x * bag.weight
    except AttributeError as error:
        return x, str(error)


@example("try/except/finally/else")
def try_finally_order(x):
    log = []
    try:
        log.append("body")
        x = x + 1
    except ValueError:
        log.append("except")
    else:
        log.append("else")
        x = x * 2
    finally:
        log.append("finally")
    return x, log


@example("try/except/finally/else")
def return_in_finally(x):
    def inner():
        try:
            return x + 1
        finally:
            x.mul(2)

    return inner()


@example("try/except/finally/else", X, 0, also=[(X, 2)])
def zero_division_caught(x, n):
    try:
        return x * (6 // n)
    except ZeroDivisionError:
        return x
    finally:
        n += 1


@example("try/except/finally/else")
def except_in_loop(x):
    for value in ("1", "two", "3"):
        try:
            x = x + int(value)
        except ValueError:
            x = x - 1
            continue
    return x


@example("cause/context")
def exception_context(x):
    try:
        try:
            {}["missing"]
        except KeyError:
            raise RuntimeError("second")
    except RuntimeError as error:
        return x + 1, repr(error.__context__), error.__cause__ is None, error.__suppress_context__


@example("cause/context")
def raise_from_none(x):
    try:
        try:
            [][1]
        except IndexError:
            raise LookupError("nothing there") from None
    except LookupError as error:
        return x - 1, error.__suppress_context__


@example("exception groups")
def exception_group(x):
    try:
        raise ExceptionGroup("several", [ValueError("a"), TypeError("b")])
    except* ValueError as group:
        x = x + len(group.exceptions)
    except* TypeError:
        x = x * 2
    return x


@example("assert", X, 3)
def assert_with_message(x, n):
    assert x.shape[1] == n, f"need {n} columns"
    return x / n


@example("assert", X, 7)
def assert_fails(x, n):
    assert x.shape[1] == n, f"need {n} columns, not {x.shape[1]}"
    return x / n
