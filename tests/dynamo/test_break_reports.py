"""What a graph break tells its reader: the user's line, carets under the part that broke, and who called it."""

import textwrap

import pytest
import torch

import minicompile
from minicompile import config, errors


def leaf(x):
    y = x * 2
    return y + 1 if y.sum() > 0 else y


def middle(x):
    return leaf(x + 1) * 3


def root(x):
    return middle(x) + sum(
        map(lambda value: print(end="") or value, [x]),
    )


def values(x):
    yield x
    print(end="")


def over_generator(x):
    return [value * 2 for value in values(x)]


def shown(error):
    """The report without folders and line numbers."""
    places = [f"{p.function}: " + " / ".join(line.strip() for line in p.lines()[1:]) for p in error.places]
    return [error.kind, *places]


def test_the_report_has_the_line_carets_and_the_callers():
    first, *rest = minicompile.capture(root, torch.ones(2)).breaks
    assert shown(first) == [
        "data-dependent branch",
        "leaf: return y + 1 if y.sum() > 0 else y / ^^^^^^^^^^^",
        "middle: return leaf(x + 1) * 3 / ^^^^^^^^^^^",
        "root: return middle(x) + sum( / ^^^^^^^^^",
    ]
    text = str(first).splitlines()
    assert text[0].startswith("data-dependent branch: ") and text[1].startswith("  hint: use torch.where")
    assert text[2] == f"  at: {__file__}:{leaf.__code__.co_firstlineno + 2} in leaf"
    line, caret = text[3], text[4]
    assert line[caret.index("^") : caret.rindex("^") + 1] == "y.sum() > 0"
    assert text[5].startswith("  called from: ") and text[5].endswith(" in middle")
    assert [shown(error)[1].split(":")[0] for error in rest] == ["<lambda>", "<lambda>"]


def test_explain_names_one_cause_once():
    text = repr(minicompile.explain(root, backend="eager")(torch.ones(2)))
    assert text.count("print or input: ") == 1 and "counted 2 times" in text


def test_a_break_in_a_generator_names_its_line():
    (error, *_) = minicompile.capture(over_generator, torch.ones(2)).breaks
    assert shown(error)[1:] == [
        'values: print(end="")',
        *(
            ["<listcomp>: return [value * 2 for value in values(x)] / ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^"]
            * (len(error.places) == 3)
        ),
        shown(error)[-1],
    ]


def test_polyfills_are_not_shown():
    def reduced(x):
        import functools

        return functools.reduce(lambda a, b: a + b.item(), [x, x], 0)

    (error, *_) = minicompile.capture(reduced, torch.ones(())).breaks
    assert [place.function for place in error.places] == ["<lambda>", "reduced"]


def test_columns_count_bytes_and_a_missing_source_is_no_trouble(tmp_path):
    place = errors.UserPlace(str(tmp_path / "nowhere.py"), "f", (3, 3, 0, 4))
    assert place.lines() == [str(place)]
    path = tmp_path / "wide.py"
    path.write_text(
        textwrap.dedent("""
        def wide(x):
            return ("größer", x.item() > 1)
    """)
    )
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    (error,) = minicompile.capture(namespace["wide"], torch.ones(())).breaks
    _, source, caret = error.places[0].lines()
    assert source[caret.index("^") : caret.rindex("^") + 1] == "x.item()"


def test_the_log_has_the_same_text(capfd):
    with config.patch(logs="graph_breaks"):
        (error, *_) = minicompile.capture(leaf, torch.ones(2)).breaks
    assert str(error) in capfd.readouterr().err


def test_a_cell_of_a_notebook_is_called_that():
    place = errors.UserPlace("/somewhere/ipykernel_123/456.py", "f", (3, None, None, None))
    assert str(place) == "notebook cell:3 in f"


def down(x, n):
    return x if n == 0 else down(x / 2, n - 1)


def test_a_long_chain_of_calls_is_shortened():
    with config.patch(inline_depth_limit=20):
        (error, *_) = minicompile.capture(lambda x: down(x, 25), torch.ones(1)).breaks
    text = str(error)
    assert len(error.places) == 21 and text.count(" in down") == 6 and "... 14 more calls" in text


class Layer:
    pass


def test_values_are_named_in_the_users_words():
    def writes(x, layer):
        layer.__dict__.clear()
        return x

    def refuses(x):
        raise ValueError("no", 3)

    (error,) = minicompile.capture(writes, torch.ones(1), Layer()).breaks
    assert error.explanation == "`clear` on the __dict__ of `layer` (a value of type Layer)"
    compiled = minicompile.compile(refuses, backend="eager", fullgraph=True)
    with pytest.raises(errors.Unsupported, match=r"the program raises ValueError\('no', 3\) here"):
        compiled(torch.ones(1))


def test_a_value_that_cannot_be_rebuilt_points_at_the_break():
    def handled():
        try:
            raise ValueError
        except ValueError:
            yield 1
            yield 2

    def across(x):
        values = handled()
        next(values)
        print(x.shape)
        return x + next(values)

    (error, *_) = minicompile.capture(across, torch.ones(1)).breaks
    assert error.kind == "value across a break" and shown(error)[1:] == ["across: print(x.shape)"]


def in_a_group(x):
    try:
        raise ExceptionGroup("two", [ValueError(), KeyError()])
    except* ValueError:
        x = x + 2
    return x


def test_an_instruction_without_a_line_stands_at_the_one_before_it():
    with pytest.raises(errors.Unsupported) as caught:
        minicompile.compile(in_a_group, backend="eager", fullgraph=True)(torch.ones(2))
    assert caught.value.places[0].lines()[1].strip() != "def in_a_group(x):"
