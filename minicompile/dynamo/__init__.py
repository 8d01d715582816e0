"""dynamo: from a Python function's bytecode to FX graphs, guards and new bytecode.

Goes in: a frame.  Comes out: graphs, guards and replacement code.  Mirrors `torch/_dynamo`.  Taught in chapters 01 to
07.
"""
