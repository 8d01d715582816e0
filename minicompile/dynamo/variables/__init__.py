"""The trackers, a file per family of Python values."""
