"""Rows of the guard table: the modes of the thread and of the process."""

from guard_rows import due, kept, row

PLAIN = "lambda x: x * 2 + 1"

row("grad mode", "", PLAIN, due("enter(torch.no_grad())"), kept("x = x + 1"))
row("grad mode and back", "", PLAIN, due("torch.set_grad_enabled(False)"), kept("torch.set_grad_enabled(True)"))
row("inference mode", "", PLAIN, due("enter(torch.inference_mode())"))
row("autocast", "", "lambda x: x @ x.t()", due("enter(torch.autocast('cpu'))"))
row(
    "autocast's dtype",
    "enter(torch.autocast('cpu', dtype=torch.bfloat16))",
    "lambda x: x @ x.t()",
    due("enter(torch.autocast('cpu', dtype=torch.float16))"),
)
row(
    "autocast that is switched off inside",
    "enter(torch.autocast('cpu'))",
    "lambda x: x @ x.t()",
    due("enter(torch.autocast('cpu', enabled=False))"),
)
row(
    "autocast's cache",
    "enter(torch.autocast('cpu'))",
    "lambda x: x @ x.t()",
    due("enter(torch.autocast('cpu', cache_enabled=False))"),
)
row(
    "the default dtype",
    "",
    "lambda x: x + torch.ones(3)",
    due("later(torch.set_default_dtype, torch.float32); torch.set_default_dtype(torch.float64)"),
    kept("torch.set_default_dtype(torch.float32)"),
)
row("the default device", "", "lambda x: torch.ones(3)", due("enter(torch.device('meta'))"))
row(
    "the default device, set",
    "",
    "lambda x: torch.ones(3)",
    due("later(torch.set_default_device, None); torch.set_default_device('meta')"),
    kept("torch.set_default_device(None)"),
)
row(
    "another default device",
    "enter(torch.device('cpu'))",
    "lambda x: torch.ones(3) * x",
    due("enter(torch.device('meta')); x = x.to('meta')"),
)
row(
    "deterministic algorithms",
    "",
    PLAIN,
    due("later(torch.use_deterministic_algorithms, False); torch.use_deterministic_algorithms(True)"),
    kept("torch.use_deterministic_algorithms(False)"),
)
MODE = (
    "class M(torch.overrides.TorchFunctionMode):\n"
    "    def __torch_function__(self, f, types, args=(), kwargs=None):\n"
    "        r = f(*args, **(kwargs or {}))\n"
    "        return r + 1 if f is torch.sin else r\n"
)
row("a torch function mode", MODE, "lambda x: torch.sin(x)", due("enter(M())"), fullgraph=False)
row("one mode in another", MODE + "enter(M())", "lambda x: torch.sin(x)", due("enter(M())"), fullgraph=False)
row(
    "another mode in its place",
    MODE + "class N(M):\n    def __torch_function__(self, f, types, args=(), kwargs=None):\n"
    "        return f(*args, **(kwargs or {})) if f is not torch.sin else torch.cos(*args)\nm = M()\nm.__enter__()",
    "lambda x: torch.sin(x)",
    due("m.__exit__(None, None, None); n = enter(N())"),
    fullgraph=False,
)
row("torch functions disabled", "", PLAIN, due("enter(torch._C.DisableTorchFunctionSubclass())"))
row(
    "a hook for every module",
    "m = nn.ReLU()",
    "lambda x, m: m(x)",
    due("h = nn.modules.module.register_module_forward_hook(lambda *a: a[2] + 1); later(h.remove)"),
    kept("h.remove()"),
)
row(
    "a hook for every module where none is called",
    "",
    PLAIN,
    kept("h = nn.modules.module.register_module_forward_hook(lambda *a: a[2] + 1); later(h.remove)"),
)
row(
    "the number of threads",
    "n = torch.get_num_threads()\nlater(torch.set_num_threads, n)",
    PLAIN,
    kept("torch.set_num_threads(n + 1)"),
)
row("the random state", "", PLAIN, kept("torch.manual_seed(7)"))
row(
    "print options",
    "",
    PLAIN,
    kept("torch.set_printoptions(precision=5); later(torch.set_printoptions, profile='default')"),
)
row(
    "a kernel of attention that is switched off",
    "x = torch.ones(1, 1, 2, 4)",
    "lambda x: F.scaled_dot_product_attention(x, x, x)",
    due("later(torch.backends.cuda.enable_flash_sdp, True); torch.backends.cuda.enable_flash_sdp(False)"),
)
row("anomaly mode", "", PLAIN, kept("enter(torch.autograd.set_detect_anomaly(True))"))
# PyTorch's default is "none", to which nothing leads back
HIGHEST = "torch.set_float32_matmul_precision('highest')"
PRODUCT, TF32 = "lambda x: x @ x.t()", "torch.backends.cuda.matmul.allow_tf32"
row(
    "the precision of float32 products",
    HIGHEST,
    PRODUCT,
    due("torch.set_float32_matmul_precision('high')"),
    kept(HIGHEST),
)
row("tensor cores' float format", HIGHEST, PRODUCT, due(f"{TF32} = True"), kept(f"{TF32} = False"))
