/* What a guard program consists of, and the blocks of steps that are skipped.
 *
 * A class, a tuple of constants and the keys of an object mostly stay as they are, and many steps ask about one of them.
 * Such steps are a block: `..._STANDS, the steps, REMEMBER`.  When all of them have held, REMEMBER notes in the first
 * step what they relied on; as long as that stands, they need not be asked.
 * Goes in: the first step, the block, and the value that it is about.  Comes out: whether the block can be skipped.
 *
 * Mirrors torch/csrc/dynamo/guards.cpp.  Taught in chapter 04. */
#pragma once
#include <memory>
#include <vector>
#include "_conditions.h"
#include "_plain_reads.h"

#define OPERATIONS(each)                                                                                      \
    each(ATTRIBUTE) each(FUNCTION_PART) each(ITEM) each(CALL) each(CLASS) each(SIZE) each(STRIDE)             \
    each(STORAGE_OFFSET) /* up to here they read */                                                           \
    each(TYPE) each(IS) each(SAME) each(EQUALS) each(LENGTH) each(KEYS) each(HAS_KEY) each(LACKS_KEY)         \
    each(LACKS_ATTRIBUTE) each(CLASS_LACKS) each(NO_HOOKS) each(TENSOR) each(DISTINCT) each(CONDITION)        \
    each(ASK) each(CLASS_STANDS) each(TUPLE_STANDS) each(KEYS_STAND) each(REMEMBER)
#define NAME_AND_COMMA(name) name,
enum Operation { OPERATIONS(NAME_AND_COMMA) };

struct Details { /* of the steps that need more than one operand */
    std::vector<int> registers;       /* what CALL and ASK pass on, and what DISTINCT and CONDITION look at */
    std::vector<PyObject *> distinct; /* addresses that DISTINCT found to differ from each other */
    TensorFacts tensor;
    Condition condition;
    Place places[N_HOOKS];            /* where NO_HOOKS found them */
};

struct Step {
    int operation, source, target;
    Py_ssize_t number; /* the operand where it is an int; of a block: how many steps from its first to its last */
    PyObject *operand; /* strong: an object that is compared by its address cannot be freed */
    Place place;       /* where ATTRIBUTE and ITEM found it; of a block: what it relied on */
    std::unique_ptr<Details> details;
};

/* ---- the keys of an object's dict --------------------------------------------------------------------------------
 * The instances of a class share one table of keys, to which names are only ever added: while there are as many as there
 * were, an instance that uses this table lacks what is not in it.  What was copied or unpickled has a table of its own,
 * whose keys are remembered one by one. */
static inline DictKeys *
keys_of(PyObject *object)
{
    PyObject *dict = instance_dict(object);
    return dict != NULL ? (DictKeys *)((PyDictObject *)dict)->ma_keys : NULL;
}

static inline bool
are_keys(DictKeys *keys, PyObject *expected)
{
    bool same = keys->kind != 0 && keys->n_entries == PyTuple_GET_SIZE(expected);
    for (Py_ssize_t i = 0; same && i < keys->n_entries; i++)
        same = entries_of(keys)[i].key == PyTuple_GET_ITEM(expected, i);
    return same;
}

static PyObject * /* new reference: the class that shares this table, or its keys; None: they do not tell */
what_tells(DictKeys *keys, PyTypeObject *cls, const Step *step, const Step *end)
{
    bool shared = PyType_HasFeature(cls, Py_TPFLAGS_HEAPTYPE)
        && keys == (DictKeys *)((PyHeapTypeObject *)cls)->ht_cached_keys;
    PyObject *tuple = keys->kind != 0 ? PyTuple_New(keys->n_entries) : Py_NewRef(Py_None);
    for (Py_ssize_t i = 0; tuple != NULL && tuple != Py_None && i < keys->n_entries; i++) {
        PyObject *key = entries_of(keys)[i].key;
        for (const Step *each = step; each < end && key != NULL; each++)
            key = PyUnicode_Compare(key, each->operand) == 0 ? NULL : key; /* it was deleted, or others have it */
        if (key != NULL)
            PyTuple_SET_ITEM(tuple, i, Py_NewRef(key));
        else
            Py_SETREF(tuple, Py_NewRef(Py_None));
    }
    if (shared && tuple != NULL && tuple != Py_None)
        Py_SETREF(tuple, Py_NewRef((PyObject *)cls));
    return tuple;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
static inline bool
stands(const Step &first, PyObject *value)
{
    if (first.operation == CLASS_STANDS)
        return is_version(&first.place, value) && Py_IS_TYPE(value, &PyType_Type);
    if (first.operation == TUPLE_STANDS)
        return value == first.operand;
    DictKeys *keys = keys_of(value);
    if (keys == NULL || first.operand == Py_None)
        return false;
    if ((PyObject *)Py_TYPE(value) == first.operand)
        return (PyObject *)keys == first.place.kept && keys->n_entries == (Py_ssize_t)first.place.version;
    return PyTuple_CheckExact(first.operand) && are_keys(keys, first.operand);
}

static int /* 1; or, with an exception, -1 */
remember(Step &first, const Step *end, PyObject *value)
{
    Place &place = first.place;
    PyObject *relied_on = Py_NewRef(value);
    if (first.operation == CLASS_STANDS) {
        place.version = ((PyTypeObject *)value)->tp_version_tag;
        for (const Step *step = &first + 1; step < end; step++)
            if (step->operation == ATTRIBUTE || step->operation == CLASS_LACKS) /* they know whether the version tells */
                place.version = step->place.version == place.version ? place.version : 0;
    } else if (first.operation == KEYS_STAND) {
        DictKeys *keys = keys_of(value);
        uint32_t count = keys != NULL ? (uint32_t)keys->n_entries : 0;
        bool in_vain = keys == NULL || (first.operand == Py_None && place.version == count
                                        && place.kept == (PyObject *)keys);
        Py_SETREF(relied_on, in_vain ? Py_NewRef(Py_None) : what_tells(keys, Py_TYPE(value), &first + 1, end));
        place.version = count;
        place.kept = (PyObject *)keys; /* borrowed: the class keeps it */
    }
    if (relied_on != NULL)
        Py_SETREF(first.operand, relied_on);
    return relied_on != NULL ? 1 : -1;
}
