"""The checks of the exercises, a file per chapter: `check_NN_k(answer)` returns a Verdict that says what is wrong."""
