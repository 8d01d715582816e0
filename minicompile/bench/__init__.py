"""The benchmark: the model zoo, timing that can be trusted, and the tables.  `python -m minicompile.bench --help`."""
