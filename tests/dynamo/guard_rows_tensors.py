"""Rows of the guard table: what a graph knows of its tensors apart from their data, and which of them are one."""

from guard_rows import due, kept, row

PLAIN = "lambda x: x * 2 + 1"

row("other data", "", PLAIN, kept("x = x * 0 - 5"), kept("x.fill_(7)"), kept("x[0, 0] = math.nan"))
row("another offset", "", PLAIN, kept("x = torch.arange(9.0)[3:].view(2, 3)"))
row("an offset that is read", "", "lambda x: x + x.storage_offset()", due("x = torch.arange(9.0)[3:].view(2, 3)"))
row(
    "an offset that as_strided keeps",
    "x = torch.arange(9.0)[1:].view(2, 4)",
    "lambda x: x.as_strided((2, 2), (2, 1)) + 1",
    kept("x = torch.arange(9.0)[1:].view(2, 4) * 2"),
    kept("x = torch.arange(11.0)[3:].view(2, 4)"),
    backend="aot_eager",
)
row("other strides", "", PLAIN, due("x = torch.ones(3, 2).t()"), kept("x = torch.ones(2, 3)"))
row("strides of an expanded tensor", "", PLAIN, due("x = torch.ones(3).expand(2, 3)"))
row("transposed in place", "x = torch.ones(2, 2)", PLAIN, due("x.t_()"), kept("x.t_()"))
row("another dtype", "", PLAIN, due("x = x.double()"), due("x = x.int()"), kept("x = x.float()"))
row("a size, then any size", "", PLAIN, due("x = torch.ones(4, 3)"), kept("x = torch.ones(9, 3)"))
row(
    "two sizes, one after the other",
    "",
    PLAIN,
    due("x = torch.ones(4, 3)"),
    due("x = torch.ones(4, 5)"),
    kept("x = torch.ones(7, 8)"),
)
row("a size becomes 1", "", PLAIN, due("x = torch.ones(1, 3)"), kept("x = torch.ones(2, 3)"))
row("a size becomes 0", "", PLAIN, due("x = torch.ones(0, 3)"), kept("x = torch.ones(2, 3)"))
row("another rank", "", PLAIN, due("x = torch.ones(3)"), due("x = torch.ones(())"), kept("x = torch.ones(2, 3)"))
row("resized in place", "", PLAIN, due("x.resize_(3, 3).fill_(1)"), kept("x.resize_(5, 3).fill_(1)"))
row("requires_grad", "", PLAIN, due("x = torch.ones(2, 3, requires_grad=True)"), kept("x = torch.ones(2, 3)"))
row("requires_grad_ in place", "", PLAIN, due("x.requires_grad_()"), kept("x.requires_grad_(False)"))
row(
    "a leaf where it is asked",
    "x = torch.ones(2, requires_grad=True)",
    "lambda x: x + 1 if x.is_leaf else x - 1",
    due("x = x * 2"),
    kept("x = torch.ones(2, requires_grad=True)"),
)
row("a leaf where nobody asks", "x = torch.ones(2, requires_grad=True)", PLAIN, kept("x = x * 2"))
row("the meta device", "", PLAIN, due("x = torch.ones(2, 3, device='meta')"), kept("x = torch.ones(2, 3)"))
row(
    "a conjugate",
    "x = torch.ones(2, dtype=torch.complex64)",
    PLAIN,
    due("x = x.conj()"),
    kept("x = x.conj().clone().resolve_conj()"),
)
row("a negative view", "", PLAIN, due("x = torch._neg_view(x)"), kept("x = x.resolve_neg()"))
row("an inference tensor", "", PLAIN, due("with torch.inference_mode(): x = torch.ones(2, 3)"))
row(
    "a parameter",
    "",
    PLAIN,
    due("x = nn.Parameter(torch.ones(2, 3), requires_grad=False)"),
    kept("x = torch.ones(2, 3)"),
)
row("a buffer is a tensor of a class", "", PLAIN, kept("x = nn.Buffer(torch.ones(2, 3))"))
row(
    "a subclass runs its own code",
    "class T(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
    "        return super().__torch_function__(f, types, args, kwargs or {}).as_subclass(torch.Tensor) + 1",
    PLAIN,
    due("x = torch.ones(2, 3).as_subclass(T)"),
    fullgraph=False,
)
row("a sparse tensor", "", "lambda x: x * 2", due("x = torch.eye(2).to_sparse()"), fullgraph=False)
row("a number in place of a tensor", "", "lambda x: torch.ones(3) * x", due("x = 3"), kept("x = torch.ones(2, 3)"))
row(
    "no tensor at all",
    "",
    "lambda x: torch.ones(3) if x is None else x + 1",
    due("x = None"),
    kept("x = torch.ones(2, 3)"),
)

# --- what hangs on a tensor -----------------------------------------------------------------------------------
row(
    "an attribute of a tensor",
    "x.scale = 2.5",
    "lambda x: x * x.scale",
    due("x.scale = 'ab' and 3.5"),
    due("x = torch.ones(2, 3); x.scale = None or True"),
)
row("an attribute that nobody reads", "", PLAIN, kept("x.scale = 3.0"), kept("x.foo = x"))
row("an absent attribute appears", "", "lambda x: x * getattr(x, 'scale', 2.0)", due("x.scale = 5.0"))
row(
    "the gradient of an input",
    "",
    "lambda x: x if x.grad is None else x + x.grad",
    due("x.grad = torch.ones(2, 3)"),
    kept("x.grad = torch.zeros(2, 3)"),
)
row("a gradient that nobody reads", "", PLAIN, kept("x.grad = torch.ones(2, 3)"))
row("a method of a tensor is hidden", "", "lambda x: x.sin()", due("x.sin = lambda: torch.ones(1)"))
row("is_contiguous", "x = torch.ones(2, 2)", "lambda x: x + x.is_contiguous()", due("x.t_()"))
row(
    "a size that is compared",
    "",
    "lambda x: x + 1 if len(x) > 3 else x",
    due("x = torch.ones(3, 3)"),
    due("x = torch.ones(4, 3)"),
    kept("x = torch.ones(9, 3)"),
)

# --- aliases ----------------------------------------------------------------------------------------------------
row("two arguments become one tensor", "y = x + 1", "lambda x, y: x + y", due("y = x"), kept("y = x + 1"))
row("one tensor becomes two", "y = x", "lambda x, y: x + y", due("y = x + 1"), kept("y = x"))
row(
    "two become one, written",
    "y = x + 1",
    "lambda x, y: (x.add_(1), y.mul_(2), x.clone())",
    due("y = x"),
    kept("y = x.clone()"),
    backend="aot_eager",
)
row("identity is asked", "y = x", "lambda x, y: x + (x is y)", due("y = x.clone()"), kept("y = x"))
row(
    "a third becomes one of two",
    "y, z = x + 1, x + 2",
    "lambda x, y, z: x + y * z",
    due("z = y"),
    due("z = x"),
    kept("z = x + 2"),
)
row("a list holds an argument", "v = [x + 1]", "lambda x, v: x + v[0]", due("v = [x]"), kept("v = [x * 2]"))
row("an unread argument is the same tensor", "y = x + 1", "lambda x, y: x + 1", kept("y = x"), kept("y = 3"))
row("a global is an argument", "W = x + 1", "lambda x: x + W", due("W = x"), kept("W = x * 3"))
row(
    "memory is shared, one is written",
    "y = torch.ones(6)",
    "lambda x, y: (x.add_(1), y * 2)",
    kept("y = x.view(6)"),
    kept("y = torch.ones(6)"),
    backend="aot_eager",
)
row(
    "memory is no longer shared",
    "y = x.view(6)",
    "lambda x, y: (x.add_(1), y * 2)",
    kept("y = torch.ones(6)"),
    backend="aot_eager",
)
row(
    "memory is shared, none is written",
    "y = torch.ones(6)",
    "lambda x, y: (x.sum() + y * 2)",
    kept("y = x.view(6)"),
    backend="aot_eager",
)
row(
    "other parts of one memory",
    "m = torch.arange(12.0)\nx, y = m[:6], m[3:9]",
    "lambda x, y: (x.add_(1), y * 2)",
    kept("m = torch.arange(12.0); x, y = m[:6], m[4:10]"),
    backend="aot_eager",
)
row("identity is asked of two", "y = x + 1", "lambda x, y: x + (x is y)", due("y = x"), kept("y = x.clone()"))
VIEW = "lambda x: x + 1 if x._is_view() else x - 1"
row("a view where it is asked", "x = torch.ones(6)", VIEW, due("x = torch.ones(8)[:6]"), kept("x = torch.ones(6)"))
SHARED = "lambda x: x * 2 if x.is_shared() else x"
row("memory that processes share", "", SHARED, due("x.share_memory_()"), kept("x = torch.ones(2, 3)"))
row(
    "an attribute that tensors lack",
    "from unittest import mock",
    "lambda x: x.shift() if hasattr(x, 'shift') else x * 2",
    due("enter(mock.patch.object(torch.Tensor, 'shift', lambda self: self + 5, create=True))"),
)
