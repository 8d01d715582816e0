"""The one thing that pyproject.toml cannot say in a stable way: the C extension."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "minicompile.dynamo._eval_frame",
            ["minicompile/dynamo/_eval_frame.c"],
            extra_compile_args=["-O3", "-g", "-std=c11", "-Wall"],
        )
    ]
)
