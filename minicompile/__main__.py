"""`python -m minicompile demo` and `python -m minicompile bench`."""

import sys

from .bench import __main__ as bench
from .bench import demo

COMMANDS = {"demo": demo.main, "bench": bench.main}


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(f"usage: python -m minicompile {{{','.join(COMMANDS)}}} [--help]", file=sys.stderr)
        return 2
    return COMMANDS[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
