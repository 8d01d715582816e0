"""One run on a GPU: is everything right, and how fast is it?

    python3 -m pip install --no-build-isolation --no-deps -e .
    python3 scripts/check_gpu.py [ops] [models] [times] [--seconds 400]

Goes in: a machine with CUDA.  Comes out: a table on the terminal, and everything as JSON in $OUT/check_gpu.json.
Operators and patterns run through lower -> schedule -> codegen("triton") -> load; models through `minicompile.compile`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "inductor")]

import torch  # noqa: E402
from gpu_cases import OPS, TIMES, Block, half, single  # noqa: E402

import minicompile  # noqa: E402
from minicompile import config, inductor  # noqa: E402

RESULTS = {"failures": {}, "ops": {}, "models": {}, "times": {}, "host": {}}
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-6}
START = time.time()
ONLY = []  # words: run what has one of them in its name
DEVICE = os.environ.get("CHECK_GPU_DEVICE", "cuda")  # "cpu": a dry run of this script in Triton's interpreter


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def tensors(value):
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def to_device(value):
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(DEVICE), value)


def error(actual, expected):
    """The largest error of any result, in units of the tolerance; raises for another shape, dtype or stride."""
    worst = 0.0
    assert len(actual) == len(expected), (len(actual), len(expected))
    for a, e in zip(actual, expected, strict=True):
        assert (a.shape, a.dtype, a.device) == (e.shape, e.dtype, e.device), (a.shape, a.dtype, e.shape, e.dtype)
        if e.numel() == 0:
            continue
        if not e.dtype.is_floating_point:
            worst = max(worst, 0.0 if torch.equal(a, e) else float("inf"))
            continue
        a, e, tolerance = a.double(), e.double(), TOLERANCE.get(e.dtype, 1e-4)
        assert torch.equal(a.isnan(), e.isnan()), "NaN in other places"
        close = torch.where(a == e, 0.0, (a - e).abs() / (tolerance * (1 + e.abs()))).nan_to_num(0.0, float("inf"))
        worst = max(worst, close.max().item())
    return worst


def attempt(kind, name, function):
    """Run one check; a failure is noted and the next one runs."""
    if ONLY and not any(word in f"{kind} {name}" for word in ONLY):
        return
    started = time.time()
    try:
        result = function()
        RESULTS[kind][name] = {"seconds": round(time.time() - started, 2), **result}
        if result.get("error", 0) > 1:
            RESULTS["failures"][f"{kind} {name}"] = f"error is {result['error']:.3g} times the tolerance"
    except Exception as failure:
        text = f"{type(failure).__name__}: {failure}"
        RESULTS["failures"][f"{kind} {name}"] = text[:1500]
        RESULTS[kind][name] = {"failure": text[:3000], "traceback": traceback.format_exc()[-3000:]}
        if "CUDA error" in text:  # the device is lost: nothing after this would mean anything
            report()
            os._exit(1)
    if f"{kind} {name}" in RESULTS["failures"]:
        print(f"FAIL {kind} {name}: {RESULTS['failures'][f'{kind} {name}'][:300]}", flush=True)


# --- operators ------------------------------------------------------------------------------------------


def aten_graph(function, inputs):
    from torch.fx.experimental.proxy_tensor import make_fx

    from minicompile.aot.decompositions import decomposition_table

    return make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)


def check_op(function, make):
    inputs = to_device(make())
    with torch.device(DEVICE):  # for functions that make tensors
        return compare(function, inputs)


def compare(function, inputs):
    groups = inductor.schedule(inductor.lower(aten_graph(function, inputs), inputs))
    call = inductor.load(inductor.codegen(groups, "triton"))
    actual, expected = tensors(call(*inputs)), tensors(function(*inputs))
    synchronize()
    return {"error": error(actual, expected), "kernels": len(call.source.kernel_names)}


def ops():
    from patterns import PATTERNS

    for name, (function, make, _) in PATTERNS.items():
        torch.manual_seed(0)
        attempt("ops", f"pattern_{name}", lambda f=function, m=make: check_op(f, m))
    for name, (function, make) in OPS.items():
        torch.manual_seed(0)
        attempt("ops", name, lambda f=function, m=make: check_op(f, m))
    attempt("ops", "index_out_of_range", check_assert)


def check_assert():
    """An index out of range stops the program (in a process of its own: the device is lost after it)."""
    code = (
        "import torch, minicompile\n"
        "f = minicompile.compile(lambda w, i: w[i])\n"
        "f(torch.randn(9, 4).cuda(), torch.tensor([3, 11]).cuda()); torch.cuda.synchronize()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    found = "device-side assert" in done.stderr or "IndexError" in done.stderr
    assert done.returncode != 0 and found, done.stderr[-800:]
    return {"error": 0.0}


# --- models -----------------------------------------------------------------------------------------------


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model.train()


def scaled_error(actual, expected):
    """The largest difference over the largest value of all."""
    top = max((e.abs().max().item() for e in expected if e.numel()), default=1.0) or 1.0
    return (
        max(((a - e).abs().max().item() for a, e in zip(actual, expected, strict=True) if e.numel()), default=0) / top
    )


def seeded(function):
    torch.manual_seed(7)
    return function()


def check_inference(entry):
    model, batch = entry.build("small", device=DEVICE)
    with torch.no_grad():
        expected = seeded(lambda: tensors(model(*batch.args, **batch.kwargs)))
        compiled = minicompile.compile(model)
        actual = seeded(lambda: tensors(compiled(*batch.args, **batch.kwargs)))
    stats = {k: v for k, v in minicompile.stats().items() if isinstance(v, int)}
    return {"error": scaled_error(actual, expected) / 1e-4, **stats}


def check_training(entry):
    def step(wrap):
        model, batch = entry.build("small", device=DEVICE)
        call = wrap(without_dropout(model))
        kwargs = entry.training_kwargs(batch)
        loss = seeded(lambda: entry.loss(call(*batch.args, **kwargs), batch.target))
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]

    expected, actual = step(lambda m: m), step(minicompile.compile)
    stats = {k: v for k, v in minicompile.stats().items() if isinstance(v, int)}
    return {"error": scaled_error(actual, expected) / 1e-3, **stats}


def models(seconds):
    from minicompile.bench.models import ZOO

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    for name, entry in ZOO.items():
        for kind, check in (("inference", check_inference), ("training", check_training)):
            if time.time() - START > seconds:
                RESULTS["failures"][f"models {name} {kind}"] = "not run: out of time"
                continue
            minicompile.reset()
            attempt("models", f"{name} {kind}", lambda c=check, e=entry: c(e))


# --- times --------------------------------------------------------------------------------------------------


def median_us(call, seconds=0.3):
    """Median of device time by events, after warming up."""
    for _ in range(5):
        call()
    pairs, deadline = [], time.time() + seconds
    while len(pairs) < 200 and (time.time() < deadline or len(pairs) < 10):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    times = sorted(b.elapsed_time(e) * 1000 for b, e in pairs)
    return times[len(times) // 2]


def host_us(call, count=2000):
    """Host time of one call when the device keeps up."""
    for _ in range(50):
        call()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(count):
        call()
    elapsed = time.perf_counter() - started
    torch.cuda.synchronize()
    return elapsed / count * 1e6


def block_step(call, x, model):
    out = call(x)
    out.backward(torch.ones_like(out))
    for p in model.parameters():
        p.grad = None


WAYS = {"eager": lambda f: f, "ours": lambda f: minicompile.compile(f), "torch": lambda f: torch.compile(f)}


def time_function(function, make, nbytes):
    result, inputs = {}, make()
    for way, wrap in WAYS.items():
        torch._dynamo.reset()
        call = wrap(function)
        started = time.time()
        call(*inputs)
        torch.cuda.synchronize()
        result[f"{way}_first_s"] = round(time.time() - started, 2)
        result[way] = round(median_us(lambda c=call: c(*inputs)), 1)
    result["ours_GB_s"] = round(nbytes / result["ours"] / 1e3)
    return result


def time_block(batch, length, train):
    result = {}
    for way, wrap in WAYS.items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Block().cuda().bfloat16()
        x = half(batch, length, 1024)
        call = wrap(model)
        run = (lambda c=call, x=x, m=model: block_step(c, x, m)) if train else (lambda c=call, x=x: c(x))
        with torch.set_grad_enabled(train):
            started = time.time()
            run()
            torch.cuda.synchronize()
            result[f"{way}_first_s"] = round(time.time() - started, 2)
            result[way] = round(median_us(run), 1)
    return result


def time_host():
    x, result = single(1024), {}
    with torch.no_grad():
        for way, wrap in WAYS.items():
            torch._dynamo.reset()
            call = wrap(lambda x: x * 2 + 1)
            result[way] = round(host_us(lambda c=call: c(x)), 2)
        graph = aten_graph(lambda x: [x * 2 + 1], (x,))
        compiled = inductor.compile(graph, (x,))
        result["inductor_only"] = round(host_us(lambda: compiled(x)), 2)
    return result


def times(seconds):
    import torch._dynamo

    attempt("host", "x*2+1 on 1024", time_host)
    for name, (function, make, nbytes) in TIMES.items():
        if time.time() - START < seconds:
            with torch.no_grad():
                attempt("times", name, lambda f=function, m=make, n=nbytes: time_function(f, m, n))
            torch.cuda.empty_cache()
    for batch, length, train in ((1, 128, False), (8, 1024, False), (1, 128, True), (8, 1024, True)):
        if time.time() - START < seconds:
            name = f"block {batch}x{length} bf16 {'forward+backward' if train else 'forward'}"
            attempt("times", name, lambda b=batch, n=length, t=train: time_block(b, n, t))


# --- the report ---------------------------------------------------------------------------------------------


def report():
    out = Path(os.environ.get("OUT", ".")) / "check_gpu.json"
    out.write_text(json.dumps(RESULTS, indent=1, default=str))
    print(f"\n{'microseconds':38} {'eager':>9} {'torch':>9} {'ours':>9}   GB/s  first call torch/ours")
    for name, r in RESULTS["times"].items():
        if "ours" in r:
            first = f"{r.get('torch_first_s', '')}/{r.get('ours_first_s', '')} s"
            speed = f"{r.get('ours_GB_s', ''):>4}"
            print(f"{name:38} {r['eager']:9} {r.get('torch', '-'):>9} {r['ours']:9}   {speed}  {first}")
    for name, r in RESULTS["host"].items():
        print("host", name, {k: v for k, v in r.items() if k not in ("seconds", "traceback")})
    for kind in ("ops", "models"):
        bad = [n for n in RESULTS[kind] if f"{kind} {n}" in RESULTS["failures"]]
        print(f"{kind}: {len(RESULTS[kind]) - len(bad)} of {len(RESULTS[kind])} agree with eager")
    for name, text in RESULTS["failures"].items():
        print(f"  FAIL {name}: {text[:160]}".replace("\n", " "))
    print(f"{time.time() - START:.0f} s; full results: {out}")


def main():
    import triton

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="any of ops, times, models (default: all)")
    parser.add_argument("--seconds", type=float, default=480, help="start nothing new after this")
    parser.add_argument("--only", default="", help="words with commas: run what has one of them in its name")
    options = parser.parse_args()
    ONLY.extend(filter(None, options.only.split(",")))
    parts = options.parts or ["ops", "times", "models"]
    if DEVICE == "cuda" and not torch.cuda.is_available():
        sys.exit("check_gpu: no CUDA device here; the Triton kernels run on the CPU with TRITON_INTERPRET=1")
    config.strict, config.cpu_backend, config.fallback_random = True, "triton", True
    gpu = torch.cuda.get_device_name() if DEVICE == "cuda" else "none"
    RESULTS["machine"] = {"gpu": gpu, "torch": torch.__version__, "triton": triton.__version__}
    print(RESULTS["machine"], flush=True)
    if "ops" in parts:
        ops()
    if "times" in parts:
        times(options.seconds)
    if "models" in parts:
        models(options.seconds)
    report()
    sys.exit(bool(RESULTS["failures"]))


if __name__ == "__main__":
    main()
