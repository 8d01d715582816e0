"""Random programs, eager against compiled.  `python -m tests.fuzz --minutes 10 --seed 1` runs them for a while."""
