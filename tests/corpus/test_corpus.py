"""The corpus under minicompile: what eager does, in no more graphs and with no more breaks than torch.compile's."""

import against_torch
import corpus
import pytest

THEIRS = against_torch.recorded()

# Functions in which ours has more graphs or breaks, or another result, for now.
CANNOT_YET = set(
    """

    """.split()
)


@pytest.mark.graph_errors  # some examples raise in a graph on purpose
@pytest.mark.parametrize("name", corpus.load())
def test_example(name, request):
    if name in CANNOT_YET:
        request.applymarker(pytest.mark.xfail(strict=True))
    counts, wrong = corpus.ours(corpus.EXAMPLES[name])
    assert not wrong
    assert not against_torch.more(counts, THEIRS[name])


def test_the_record_covers_the_corpus():
    assert set(THEIRS) == set(corpus.EXAMPLES)
    assert len(THEIRS) >= 300
    assert CANNOT_YET <= set(THEIRS)
