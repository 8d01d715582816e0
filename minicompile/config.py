"""Every option of minicompile, in one place.

Goes in: environment variables (`MINICOMPILE_<NAME>`, read once at import), or assignments `config.name = value`.
Comes out: plain module attributes that the stages read when they compile.
Mirrors `torch/_dynamo/config.py` and `torch/_inductor/config.py`.  Taught in chapter 15.
"""

import contextlib
import os
import sys


def _flag(name, default):
    return os.environ.get(f"MINICOMPILE_{name}", "1" if default else "0").lower() not in ("0", "", "false", "off")


def _option(name, default):
    """An environment variable as a value of the default's type."""
    return type(default)(os.environ.get(f"MINICOMPILE_{name}", default))


# --- errors -----------------------------------------------------------------------------------------
strict = _flag("STRICT", False)  # an internal error raises instead of warning once and running eager (tests turn it on)

# --- dynamo -----------------------------------------------------------------------------------------
recompile_limit = _option("RECOMPILE_LIMIT", 8)  # entries per code object and options; then eager where none fits
inline_depth_limit = _option("INLINE_DEPTH_LIMIT", 200)  # nested calls followed before the graph breaks
nested_graph_breaks = _flag("NESTED_GRAPH_BREAKS", True)  # a break in an inlined callee cuts that callee in two
loop_limit = _option("LOOP_LIMIT", 10_000)  # times that one loop goes round during capture before the graph breaks
capture_scalar_outputs = _flag("CAPTURE_SCALAR_OUTPUTS", False)  # `.item()`, `nonzero` and their like stay in the graph

# --- aot --------------------------------------------------------------------------------------------
partition_recompute = _flag("PARTITION_RECOMPUTE", True)  # min-cut may recompute cheap values in the backward
activation_memory_budget = _option("ACTIVATION_MEMORY_BUDGET", 1.0)  # 1: what min-cut takes; 0: as little as possible
freeze = _flag("FREEZE", False)  # without gradients: fold parameters; a write to one, but by .data, compiles again

# --- inductor ---------------------------------------------------------------------------------------
fusion = _flag("FUSION", True)
fallback_random = _flag("FALLBACK_RANDOM", False)  # on a GPU: eager's own random numbers (on a CPU they always are)
emulate_precision_casts = _flag("EMULATE_PRECISION_CASTS", False)  # round bf16/fp16 where eager rounds
cpp_compiler = _option("CXX", os.environ.get("CXX", ""))  # "" = look for g++, then clang++
cpp_threads = _option("CPP_THREADS", 0)  # 0 = torch.get_num_threads()
_interpret = os.environ.get("TRITON_INTERPRET") == "1"
# "cpp", "triton" (interpreted) or "interpreter" (ATen)
cpu_backend = _option("CPU_BACKEND", "triton" if _interpret else "cpp")
cuda_backend = _option("CUDA_BACKEND", "triton")  # "triton" or "interpreter"
cuda_graphs = _flag("CUDA_GRAPHS", False)  # replay recorded launches; mode="reduce-overhead" turns it on
max_autotune = _flag("MAX_AUTOTUNE", False)  # matrix products in Triton where measured faster; the mode turns it on
verify_ir = _flag("VERIFY_IR", False)  # check the loop IR after every pass (tests turn it on)

# --- caches -----------------------------------------------------------------------------------------
cache_dir = _option("CACHE_DIR", os.path.join(os.path.expanduser("~"), ".cache", "minicompile"))
cache_size_limit_mb = _option("CACHE_SIZE_LIMIT_MB", 2048)
force_disable_caches = _flag("FORCE_DISABLE_CACHES", False)
graph_cache = _flag("GRAPH_CACHE", True)  # keep what becomes of a captured graph, besides compiled libraries

# --- logs -------------------------------------------------------------------------------------------
logs = _option("LOGS", "")  # "graph_breaks,recompiles,guards,bytecode,graph_code,aot,fusion,output_code,perf"


def snapshot():
    """Every option's value now, as `patch` takes them."""
    return {
        name: value
        for name, value in globals().items()
        if isinstance(value, bool | int | float | str) and name[0] != "_"
    }


@contextlib.contextmanager
def patch(**changes):
    """Set options for the length of a `with` block.  Raises AttributeError for a name that is no option."""
    module = sys.modules[__name__]
    old = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in old.items():
            setattr(module, name, value)
