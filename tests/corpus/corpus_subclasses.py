"""Examples: subclasses of builtins, and objects that hold tensors."""

from corpus import V, X, Y, example
from corpus_classes import Base, Both, Child, Left


# --- subclasses of builtins -----------------------------------------------------------------------------
class Stack(list):
    def push(self, x):
        self.append(x)
        return self

    def top(self):
        return self[-1]


@example("subclasses of builtins")
def list_subclass(x):
    stack = Stack().push(x).push(x + 1)
    return stack.top() * len(stack)


class Table(dict):
    def __missing__(self, key):
        self[key] = len(self)
        return self[key]


@example("subclasses of builtins", X, Table(a=5))
def dict_missing(x, table):
    return x * table["a"] + table["b"] + table["b"], table


class Id(int):
    def next(self):
        return Id(self + 1)


@example("subclasses of builtins", X, Id(4))
def int_subclass(x, number):
    return x * number + number.next()


class Shape(tuple):
    @property
    def area(self):
        total = 1
        for n in self:
            total *= n
        return total


@example("subclasses of builtins")
def tuple_subclass(x):
    shape = Shape(x.shape)
    return x.reshape(shape.area), shape[0]


class ParserError(ValueError):
    def __init__(self, text, position=0):
        super().__init__(text)
        self.position = position

    def __str__(self):
        return f"{self.args[0]} at {self.position}"


@example("subclasses of builtins")
def exception_subclass_as_value(x):
    error = ParserError("bad", position=3)
    try:
        raise error
    except ValueError as caught:
        return x + caught.position, str(caught), caught is error


class ModelOutput(dict):
    """Like Hugging Face's: by key, by attribute and by place."""

    def __init__(self, **values):
        super().__init__(**values)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __getitem__(self, key):
        return dict.__getitem__(self, key) if isinstance(key, str) else tuple(self.values())[key]


@example("subclasses of builtins")
def model_output(x):
    output = ModelOutput(logits=x * 2, loss=x.sum())
    return output[0] + output["loss"] + output.logits


@example("subclasses of builtins")
def model_output_returned(x):
    return ModelOutput(logits=x * 2, loss=x.sum())


# --- objects that hold tensors --------------------------------------------------------------------------
class State:
    def __init__(self, x):
        self.x, self.history = x, []

    def step(self, delta):
        self.history.append(self.x)
        self.x = self.x + delta
        return self


@example("objects that hold tensors", State(X), Y)
def fluent_state(state, y):
    return state.step(y).step(1).x * len(state.history)


class Node:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right


@example("objects that hold tensors", Node(X, Node(Y), Node(V, None, Node(X))))
def tree_of_nodes(root):
    def total(node):
        return 0 if node is None else node.value + total(node.left) + total(node.right)

    return total(root)


@example("objects that hold tensors")
def linked_list(x):
    head = None
    for k in range(3):
        head = Node(x + k, head)
    total, node = 0, head
    while node is not None:
        total, node = total + node.value, node.left
    return total, head


@example("objects that hold tensors", Node(X))
def cycle_between_objects(node):
    node.left = Node(node.value + 1)
    node.left.right = node
    return node.left.right.value, node.left.right is node


@example("objects that hold tensors", X, [Base(1), Child(1, 2), Both(4)])
def polymorphic_calls(x, layers):
    for layer in layers:
        x = layer(x) if not isinstance(layer, Left) else layer.finish(x)
    return x
