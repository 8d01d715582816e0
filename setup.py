"""The one thing that pyproject.toml cannot say in a stable way: the C extensions."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"minicompile.dynamo.{name}",
            [f"minicompile/dynamo/{name}.c"],
            extra_compile_args=["-O3", "-g", "-std=c11", "-Wall"],
        )
        for name in ("_eval_frame", "_guards")
    ]
)
