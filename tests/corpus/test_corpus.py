"""The corpus under minicompile: what eager does, in no more graphs and with no more breaks than torch.compile's."""

import against_torch
import corpus
import pytest

THEIRS = against_torch.recorded()

# Functions in which ours has more graphs or breaks, or another result, for now.
CANNOT_YET = set(
    """
    inference_mode sdpa_math_only sdpa_several_backends generator_throw singledispatch attribute_dict
    bound_methods_as_values simple_namespace int_argument_changes python_random full_backward_hook tensor_hook
    module_made_in_forward layer_norm_made_in_forward clip_gradient_norm sizes_change tensor_in_python_expressions
    adam_step rmsprop_step whole_training_step categorical_distribution kl_of_distributions fork_rng numpy_of_tensor
    numpy_numbers numpy_argument subclass_with_methods subclass_with_torch_function subclass_made_inside
    torch_function_mode torch_function_of_other_class disable_torch_function
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
