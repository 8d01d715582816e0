"""Which of CPython's own test modules are run compiled, and which of their tests are left out of the comparison.

Goes in: nothing.  Comes out: MODULES (those of the language core), FAST (what the unit tests run) and LEFT_OUT.
"""

MODULES = """
test_abc test_asyncgen test_augassign test_baseexception test_binop test_bisect test_bool test_builtin test_bytes
test_call test_class test_cmath test_collections test_compare test_complex test_contains test_context test_contextlib
test_contextlib_async test_copy test_coroutines test_dataclasses test_decorators test_defaultdict
test_deque test_descr test_descrtut test_dict test_dictcomps test_dictviews test_dynamic test_dynamicclassattribute
test_enum test_enumerate test_except_star test_exception_group test_exception_hierarchy test_exception_variations
test_exceptions test_extcall test_finalization test_float test_format test_fractions test_fstring test_funcattrs
test_functools test_generator_stop test_generators test_genericalias test_genericclass test_genexps test_global
test_grammar test_hash test_heapq test_index test_inspect test_int test_int_literal test_isinstance test_iter
test_iterlen test_itertools test_keywordonlyarg test_list test_listcomps test_long test_math
test_metaclass test_named_expressions test_numeric_tower test_opcodes test_operator
test_ordered_dict test_patma test_pep646_syntax test_positional_only_arg test_pow test_print test_property
test_queue test_raise test_random test_range test_reprlib test_richcmp test_scope test_set test_setcomps test_slice
test_sort test_str test_string test_string_literals test_structseq test_subclassinit
test_super test_syntax test_textwrap test_threading_local test_traceback test_tuple test_type_aliases
test_type_annotations test_type_params test_typechecks test_types test_typing test_unary test_unicode test_unpack
test_unpack_ex test_userdict test_userlist test_userstring test_weakref test_weakset test_with test_yield_from
""".split()

# A few seconds together, and something of every kind: what the unit tests run.
FAST = """
test_augassign test_binop test_dictcomps test_keywordonlyarg test_raise test_scope test_setcomps test_super test_unary
test_unpack
""".split()

# What is about the frame, the bytecode or the count of references themselves: test id (without "test.") -> why.
VECTORCALL = "sets the C vectorcall slot of a function, whose code then says nothing of what a call does"
REUSE = "counts how often one tuple is used again by enumerate() or product(): memory, not values"
SIZES = "compares the sizes of objects in memory"
INTERNED = "asks whether two equal strings are two objects"
TRACED = "traces the lines of a function that is inlined"
KEPT = "waits for a class or function to die that guards compare with: what was compiled keeps it alive"
TIMED = "times a conversion that was done during capture, and is skipped where it takes no time"
LOCALS = "reads the locals of a frame whose exception was raised and caught during capture: there was no such frame"
LINES = "asks that nobody has read source code meanwhile, which PyTorch's fake mode does each time it is made"
LEFT_OUT = {
    **{
        f"test_enumerate.{name}.test_tuple_reuse": REUSE
        for name in (
            "EnumerateTestCase",
            "EnumerateStartTestCase",
            "SubclassTestCase",
            "TestBig",
            "TestStart",
            "TestLongStart",
            "TestReversed",
        )
    },
    "test_enumerate.TestReversed.test_bug1229429": "compares counts of references",
    "test_call.TestPEP590.test_setvectorcall": VECTORCALL,
    "test_call.TestPEP590.test_setvectorcall_load_attr_specialization_deopt": VECTORCALL,
    "test_call.TestPEP590.test_setvectorcall_load_attr_specialization_skip": VECTORCALL,
    "test_call.TestRecursion.test_super_deep": "recurses as deep as the C stack allows; hooked calls take some of it",
    "test_class.ClassTests.testSetattrWrapperNameIntern": INTERNED,
    **{
        f"test_operator.{name}OperatorTestCase.{test}": INTERNED
        for name in ("C", "Py")
        for test in ("test_is", "test_is_not")
    },
    **{
        f"test_itertools.TestBasicOps.test_{name}_tuple_reuse": REUSE
        for name in ("product", "combinations", "combinations_with_replacement", "permutations", "zip", "zip_longest")
    },
    "test_dict.DictTest.test_splittable_popitem": SIZES,
    "test_descr.SharedKeyTests.test_subclasses": SIZES,
    "test_descr.ClassPropertiesAndMethods.test_slots": "counts all objects that the collector knows",
    **{
        f"test_patma.TestTracing.test_{name}": TRACED
        for name in (
            "default_capture",
            "default_wildcard",
            "no_default",
            "only_default_capture",
            "only_default_wildcard",
            "unreachable_code",
        )
    },
    "test_descr.ClassPropertiesAndMethods.test_remove_subclass": KEPT,
    "test_weakref.ReferencesTestCase.test_callback_in_cycle_resurrection": KEPT,
    **{f"test_functools.TestLRU{kind}.test_lru_cache_weakrefable": KEPT for kind in ("C", "Py")},
    **{
        f"test_ordered_dict.{kind}OrderedDict{subclass}Tests.test_reference_loop": KEPT
        for kind in ("CPython", "PurePython")
        for subclass in ("", "Subclass")
    },
    **{
        f"test_int.{cls}StrDigitLimitsTests.test_denial_of_service_prevented_{what}": TIMED
        for cls in ("Int", "IntSubclass")
        for what in ("int_to_str", "str_to_int")
    },
    "test_traceback.TestTracebackException.test_comparison_params_variations": LOCALS,
    "test_traceback.TestTracebackException.test_print": LOCALS,
    "test_traceback.TestStack.test_extract_stackup_deferred_lookup_lines": LINES,
    "test_traceback.TestTracebackException.test_lookup_lines": LINES,
    "test_dict.DictTest.test_merge_and_mutate": "tells a dict that was cleared from one that lost its keys one by one",
    "test_unicode.UnicodeTest.test_getnewargs": INTERNED,
    "test_str.StrTest.test_getnewargs": INTERNED,  # what test_unicode is from 3.13 on
    "test_sort.TestBugs.test_undetected_mutation": "changes a list and changes it back: compiled, it is left alone",
    "test_inspect.test_inspect.TestGetattrStatic.test_cache_does_not_cause_classes_to_persist": KEPT,
    "test_queue.CSimpleQueueTest.test_reentrancy": "relies on where no cycle is collected: behind a break one may be",
    "test_exceptions.ExceptionTests.test_recursion_in_except_handler": "leaves ten calls to the recursion limit",
}
