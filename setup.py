"""What pyproject.toml cannot say in a stable way: the extensions, and where PyTorch is.

`_guards`, `_launch`, `_link`, `_memory` and `_saved` read tensors: they are compiled with the headers of the PyTorch
that is installed, and anew each time, as there may be another PyTorch now.  pip hides the environment from a build;
`sysconfig` still knows where it is.
"""

import importlib.util
import pathlib
import sys
import sysconfig

from setuptools import Extension, setup


def torch_folder():
    """Where `include` and `lib` of PyTorch are.  In a conda environment they may be those of all packages."""
    spec = importlib.util.find_spec("torch")
    packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    places = [f"{folder}/torch" for folder in packages] + [sys.prefix]
    for place in [*spec.submodule_search_locations, *places] if spec is not None else places:
        if pathlib.Path(place, "include", "ATen", "Context.h").exists():
            return place
    raise SystemExit(
        "minicompile is compiled with PyTorch's headers, and there is no PyTorch in the environment of "
        f"{sys.executable}: install torch first (with a tool that builds in an environment of its own, such as uv: "
        "add --no-build-isolation)"
    )


torch = torch_folder()
COMMON = ["-O3", "-g0", "-Wall"]  # what a debugger reads of PyTorch's headers takes longer than compiling them


def reads_tensors(name, folder, headers):
    """An extension in C++ that looks into tensors."""
    return Extension(
        f"minicompile.{folder.replace('/', '.')}.{name}",
        [f"minicompile/{folder}/{name}.cpp"],
        depends=["minicompile/_tensors.h", *(f"minicompile/{folder}/{header}.h" for header in headers)],
        include_dirs=[f"{torch}/include"],
        library_dirs=[f"{torch}/lib"],
        libraries=["c10", "torch_cpu", "torch_python"],
        extra_compile_args=[*COMMON, "-std=c++20", "-ffp-contract=off"],
        language="c++",
    )


setup(
    ext_modules=[
        Extension(
            "minicompile.dynamo._eval_frame",
            ["minicompile/dynamo/_eval_frame.c"],
            depends=[
                f"minicompile/dynamo/{header}.h"
                for header in ("_at_end", "_cpython_frames", "_deaths", "_frame_cache", "_suspended_generators")
            ],
            extra_compile_args=[*COMMON, "-std=c11"],
        ),
        reads_tensors("_guards", "dynamo", ["_conditions", "_guard_steps", "_plain_reads", "_torch_state"]),
        reads_tensors("_launch", "inductor/codegen", []),
        reads_tensors("_memory", "inductor/codegen", []),
        reads_tensors("_link", "aot", []),
        reads_tensors("_saved", "aot", []),
    ],
    options={"build_ext": {"force": True}},
)
