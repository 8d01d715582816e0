"""Code generation: from scheduled groups of loops to C++ or Triton source, and the wrapper that calls it.

Mirrors `torch/_inductor/codegen`.  Taught in chapters 11 and 12.
"""
