"""Makes a failing program small: drops statements, unwraps blocks, puts parts of expressions in their place.

Goes in: a Program and a question `fails(program)`.  Comes out: a Program that fails and in which no single step of
these can be taken any more.  It works on the syntax tree, not on Hypothesis' choices, because dropping a statement then
leaves all others as they are.
"""

import ast
import dataclasses


def shrink(program, fails, at_most=500):
    """`at_most`: how many programs are tried."""
    budget = iter(range(at_most))

    def still_fails(candidate):
        return next(budget, None) is not None and fails(candidate)

    for k in reversed(range(len(program.worlds))):
        fewer = dataclasses.replace(program, worlds=program.worlds[:k] + program.worlds[k + 1 :])
        if fewer.worlds and still_fails(fewer):
            program = fewer
    tree, before = ast.parse(program.text), None
    while before != program.text:
        before = program.text
        for edit in (statements, expressions):
            program = apply(edit, tree, program, still_fails)
    return program


def apply(edits, tree, program, fails):
    """Try each edit of the tree; keep those after which the program still fails."""
    for container, key, replacement in edits(tree):
        old = container[key] if isinstance(container, list) else getattr(container, key)
        put(container, key, replacement)
        try:
            text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        except (ValueError, AttributeError):  # not a program any more
            text = None
        candidate = dataclasses.replace(program, text=text)
        if text is not None and text != program.text and fails(candidate):
            program = candidate
        else:
            put(container, slice(key.start, key.start + len(replacement)) if isinstance(key, slice) else key, old)
    return program


def put(container, key, value):
    if isinstance(container, list):
        container[key] = value
    else:
        setattr(container, key, value)


def statements(tree):
    """Edits of lists of statements (and handlers, cases, decorators), the outermost first."""
    for node in ast.walk(tree):
        for _, items in ast.iter_fields(node):
            if not isinstance(items, list):
                continue
            for k in reversed(range(len(items))):
                if k >= len(items) or not isinstance(items[k], ast.AST):
                    continue
                item = items[k]
                yield items, slice(k, k + 1), []
                if k < len(items) and items[k] is item and isinstance(item, ast.stmt):
                    yield items, slice(k, k + 1), [ast.Pass()]
                    for part in ("body", "orelse", "finalbody"):
                        inner = getattr(item, part, None)
                        if k < len(items) and items[k] is item and isinstance(inner, list) and inner:
                            yield items, slice(k, k + 1), inner


SIMPLEST = ("n", "x", "0", "None", "a")


def expressions(tree):
    """Edits that put a part of an expression, or one of the simplest, in its place."""
    for node in list(ast.walk(tree)):
        for name, value in list(ast.iter_fields(node)):
            places = [(node, name, value)] if isinstance(value, ast.expr) else []
            if isinstance(value, list):
                places = [(value, k, item) for k, item in enumerate(value) if isinstance(item, ast.expr)]
            for container, key, expression in places:
                if isinstance(getattr(expression, "ctx", ast.Load()), ast.Load) and not isinstance(
                    expression, ast.Constant
                ):
                    parts = [
                        part for part in ast.walk(expression) if isinstance(part, ast.expr) and part is not expression
                    ]
                    for new in [ast.parse(text, mode="eval").body for text in SIMPLEST] + parts:
                        now = (
                            container[key]
                            if isinstance(container, list) and key < len(container)
                            else getattr(container, str(key), None)
                        )
                        if now is expression and ast.dump(new) != ast.dump(expression):
                            yield container, key, new
