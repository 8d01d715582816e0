/* How a guard reads Python values and compares them, running as little of other people's code as can be.
 *
 * Goes in: an object and a name, a key or an expected value.  Comes out: a new reference, or 1, 0 or, with an exception,
 * -1.  The comparisons say what `same_constant` and `same_keys` of guard_checks.py say.
 *
 * Mirrors torch/csrc/dynamo/guards.cpp.  Taught in chapter 04. */
#pragma once
#include <Python.h>

/* ---- dicts ---------------------------------------------------------------------------------------------------
 * The same key mostly stands at the same place: of a dict of strings we look there first.  Nothing about a dict is
 * remembered but this place, and the key that is found there must be the one that is wanted.
 * The structures are those of pycore_dict.h and pycore_object.h, which C++ cannot include on all versions. */
#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000 || defined(Py_GIL_DISABLED)
#error "minicompile supports CPython 3.11, 3.12 and 3.13 (with the GIL)"
#endif
struct DictKeys { /* struct _dictkeysobject */
    Py_ssize_t refcnt;
    uint8_t log2_size, log2_index_bytes, kind;
    uint32_t version;
    Py_ssize_t usable, n_entries;
    char indices[];
};
struct DictEntry { /* PyDictUnicodeEntry: where `kind` is not 0, for then the keys are strings */
    PyObject *key, *value;
};

struct Place { /* where a step found its value; all 0: nowhere yet */
    uint32_t index;   /* in the entries of a dict */
    uint32_t version; /* of the type of which we know: its instances have this name in their dicts; or, with `kept`, ... */
    PyObject *kept;   /* ... it has this itself under this name (borrowed: a type of another version may have let it go) */
};

static inline DictEntry *
entries_of(DictKeys *keys)
{
    return (DictEntry *)(keys->indices + ((size_t)1 << keys->log2_index_bytes));
}

static inline PyObject * /* borrowed; NULL: unknown */
value_at_place(PyObject *dict, PyObject *key, uint32_t index)
{
    PyDictObject *d = (PyDictObject *)dict;
    DictKeys *keys = (DictKeys *)d->ma_keys;
    if (keys->kind == 0 || index >= (uint32_t)keys->n_entries || entries_of(keys)[index].key != key)
        return NULL;
    if (d->ma_values == NULL)
        return entries_of(keys)[index].value;
    return ((PyObject **)d->ma_values)[index + (PY_VERSION_HEX >= 0x030D0000)]; /* there sizes stand before the values */
}

static void /* key: replaced by the equal one that the dict has */
find_place(PyObject *dict, PyObject **key, uint32_t *index)
{
    DictKeys *keys = (DictKeys *)((PyDictObject *)dict)->ma_keys;
    enum { MOST = 1024, NOWHERE = UINT32_MAX };
    if (keys->kind == 0 || !PyUnicode_CheckExact(*key) || *index == NOWHERE)
        return;
    Py_hash_t hash = ((PyASCIIObject *)*key)->hash;
    *index = NOWHERE; /* a large dict is searched through once at most */
    for (uint32_t i = 0; i < keys->n_entries && i < MOST; i++) {
        PyObject *candidate = entries_of(keys)[i].key;
        if (candidate == *key || (candidate != NULL && ((PyASCIIObject *)candidate)->hash == hash
                                  && PyUnicode_Compare(candidate, *key) == 0)) {
            *index = i;
            Py_SETREF(*key, Py_NewRef(candidate));
            return;
        }
    }
}

static inline PyObject * /* borrowed; NULL, perhaps without an exception: it is not there */
find_in_dict(PyObject *dict, PyObject **key, uint32_t *index)
{
    PyObject *found = value_at_place(dict, *key, *index);
    if (found == NULL && (found = PyDict_GetItemWithError(dict, *key)) != NULL)
        find_place(dict, key, index);
    return found;
}

static inline PyObject * /* borrowed; NULL: it has none of its own, or not yet, or elsewhere */
instance_dict(PyObject *object)
{
    if (PyModule_CheckExact(object))
        return PyModule_GetDict(object);
    if (!PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_MANAGED_DICT))
        return NULL;
    uintptr_t word = ((uintptr_t *)object)[-3];
    return word & 1 ? NULL : (PyObject *)word; /* 3.12 marks the address of bare values */
}

/* ---- attributes and items ------------------------------------------------------------------------------------- */
/* tp_getattro of the classes that have a `__getattr__` or a `__getattribute__` in Python */
static getattrofunc user_lookups[2];
static PyObject *getattribute_name;

static int
find_user_lookups(void)
{
    const char *names[] = {"__getattr__", "__getattribute__"};
    for (int i = 0; i < 2; i++) {
        PyObject *probe = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){sO}", "Probe", names[i], Py_None);
        if (probe == NULL)
            return -1;
        user_lookups[i] = ((PyTypeObject *)probe)->tp_getattro;
        Py_DECREF(probe);
    }
    return (getattribute_name = PyUnicode_InternFromString(names[1])) == NULL ? -1 : 0;
}

static PyObject * /* new reference */
look_attribute_up(PyObject *object, PyObject *name, Place *place)
{
    PyTypeObject *type = Py_TYPE(object), *base = type;
    while (base->tp_getattro == user_lookups[0] || base->tp_getattro == user_lookups[1])
        base = base->tp_base;
    if (base != type && !Py_IS_TYPE(_PyType_Lookup(type, getattribute_name), &PyWrapperDescr_Type)) {
        PyErr_SetString(PyExc_AttributeError, "a `__getattribute__` in Python says what the attributes are");
        return NULL;
    }
    PyObject *found = base->tp_getattro(object, name);
    bool plain = base->tp_getattro == PyObject_GenericGetAttr || type == &PyModule_Type;
    bool in_dict = found != NULL && plain && instance_dict(object) != NULL && _PyType_Lookup(type, name) == NULL;
    place->version = in_dict ? type->tp_version_tag : 0;
    place->kept = NULL;
    return found;
}

/* A type changes its version with everything that a look-up in it or in its bases could find: CPython's own caches
 * rely on it.  No two types ever have one version, and 0 is none. */
static inline bool
is_version(const Place *place, PyObject *type)
{
    return place->version != 0 && place->version == ((PyTypeObject *)type)->tp_version_tag;
}

static inline PyObject * /* new reference */
read_class_attribute(PyObject *cls, PyObject *name, Place *place)
{
    if (place->kept != NULL && is_version(place, cls))
        return Py_NewRef(place->kept);
    PyObject *found = PyType_Type.tp_getattro(cls, name);
    bool itself = found != NULL && found == _PyType_Lookup((PyTypeObject *)cls, name)
        && PyType_HasFeature(Py_TYPE(found), Py_TPFLAGS_IMMUTABLETYPE); /* another type may get a `__get__` */
    place->version = itself ? ((PyTypeObject *)cls)->tp_version_tag : 0;
    place->kept = itself ? found : NULL;
    return found;
}

static inline int /* neither it nor its bases have the name, nor has a metaclass */
class_lacks(PyObject *cls, PyObject *name, Place *place)
{
    if (!PyType_Check(cls))
        return 0;
    bool plain = Py_IS_TYPE(cls, &PyType_Type);
    if (plain && is_version(place, cls))
        return 1;
    bool lacks = _PyType_Lookup((PyTypeObject *)cls, name) == NULL
        && (plain || _PyType_Lookup(Py_TYPE(cls), name) == NULL);
    place->version = lacks ? ((PyTypeObject *)cls)->tp_version_tag : 0;
    return lacks;
}

static inline PyObject * /* new reference; a `__getattr__` in Python is not asked for what is missing */
read_attribute(PyObject *object, PyObject **name, Place *place)
{
    if (Py_IS_TYPE(object, &PyType_Type))
        return read_class_attribute(object, *name, place);
    PyObject *dict = instance_dict(object);
    if (dict != NULL && place->kept == NULL && is_version(place, (PyObject *)Py_TYPE(object))) {
        PyObject *found = find_in_dict(dict, name, &place->index);
        if (found != NULL)
            return Py_NewRef(found);
        PyErr_Clear();
    }
    return look_attribute_up(object, *name, place);
}

static inline PyObject * /* new reference; number: the key, where it is a small int */
read_item(PyObject *container, PyObject **key, Py_ssize_t number, Place *place)
{
    if (PyTuple_CheckExact(container) && (size_t)number < (size_t)PyTuple_GET_SIZE(container))
        return Py_NewRef(PyTuple_GET_ITEM(container, number));
    if (PyList_CheckExact(container) && (size_t)number < (size_t)PyList_GET_SIZE(container))
        return Py_NewRef(PyList_GET_ITEM(container, number));
    if (PyDict_CheckExact(container)) {
        PyObject *found = find_in_dict(container, key, &place->index);
        if (found == NULL && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, *key);
        return Py_XNewRef(found);
    }
    return PyObject_GetItem(container, *key);
}

/* The parts of a function are read from its structure: 3.12 may look them up in its type for half a microsecond. */
enum { N_PARTS = 5 };
static const struct { const char *name; size_t offset; } function_parts[N_PARTS] = {
    {"__code__", offsetof(PyFunctionObject, func_code)},
    {"__defaults__", offsetof(PyFunctionObject, func_defaults)},
    {"__kwdefaults__", offsetof(PyFunctionObject, func_kwdefaults)},
    {"__closure__", offsetof(PyFunctionObject, func_closure)},
    {"__globals__", offsetof(PyFunctionObject, func_globals)},
};

static PyObject *
function_part_names(void)
{
    PyObject *names = PyTuple_New(N_PARTS);
    for (int i = 0; names != NULL && i < N_PARTS; i++)
        PyTuple_SET_ITEM(names, i, PyUnicode_FromString(function_parts[i].name));
    return names;
}

static int
number_of_part(PyObject *name)
{
    for (int i = 0; i < N_PARTS; i++)
        if (PyUnicode_CompareWithASCIIString(name, function_parts[i].name) == 0)
            return i;
    PyErr_SetObject(PyExc_ValueError, name);
    return -1;
}

static inline PyObject * /* new reference */
function_part(PyObject *function, Py_ssize_t number)
{
    PyObject *part = *(PyObject **)((char *)function + function_parts[number].offset);
    return Py_NewRef(part != NULL ? part : Py_None);
}

/* ---- comparisons: 1, 0 or, with an exception, -1 ---------------------------------------------------------------- */
static int
same_float(double value, double expected)
{
    return memcmp(&value, &expected, sizeof(double)) == 0 || (value != value && expected != expected);
}

static int /* of any type that has no parts but those of tuples and lists */
same_constant(PyObject *value, PyObject *expected)
{
    if (value == expected)
        return 1;
    if (!Py_IS_TYPE(value, Py_TYPE(expected)))
        return 0;
    if (PyFloat_Check(expected))
        return same_float(PyFloat_AS_DOUBLE(value), PyFloat_AS_DOUBLE(expected));
    if (PyComplex_Check(expected)) {
        Py_complex a = ((PyComplexObject *)value)->cval, b = ((PyComplexObject *)expected)->cval;
        return same_float(a.real, b.real) && same_float(a.imag, b.imag);
    }
    if (!PyTuple_Check(expected) && !PyList_Check(expected))
        return PyObject_RichCompareBool(value, expected, Py_EQ);
    int same = PySequence_Fast_GET_SIZE(value) == PySequence_Fast_GET_SIZE(expected);
    for (Py_ssize_t i = 0; same == 1 && i < PySequence_Fast_GET_SIZE(value); i++)
        same = same_constant(PySequence_Fast_GET_ITEM(value, i), PySequence_Fast_GET_ITEM(expected, i));
    return same;
}

static int /* expected: a list or a tuple */
same_keys(PyObject *mapping, PyObject *expected)
{
    Py_ssize_t length = PyObject_Size(mapping), n = 0, position = 0;
    PyObject *key;
    if (length < 0 || length != PySequence_Fast_GET_SIZE(expected))
        return length < 0 ? -1 : 0;
    int same = 1;
    if (PyDict_CheckExact(mapping)) {
        while (same == 1 && n < PySequence_Fast_GET_SIZE(expected) && PyDict_Next(mapping, &position, &key, NULL))
            same = same_constant(key, PySequence_Fast_GET_ITEM(expected, n++));
        return same;
    }
    PyObject *keys = PyObject_GetIter(mapping);
    while (keys != NULL && same == 1 && (key = PyIter_Next(keys)) != NULL) {
        same = n < PySequence_Fast_GET_SIZE(expected) ? same_constant(key, PySequence_Fast_GET_ITEM(expected, n++)) : 0;
        Py_DECREF(key);
    }
    Py_XDECREF(keys);
    return PyErr_Occurred() ? -1 : same;
}

static inline Py_ssize_t
length_of(PyObject *container)
{
    if (PyDict_CheckExact(container))
        return PyDict_GET_SIZE(container);
    return PyList_CheckExact(container) || PyTuple_CheckExact(container) ? Py_SIZE(container) : PyObject_Size(container);
}

static inline PyObject * /* new reference */
attributes_of(PyObject *object)
{
    PyObject *attributes = instance_dict(object);
    return attributes != NULL ? Py_NewRef(attributes) : PyObject_GenericGetDict(object, NULL);
}

static int
lacks_attribute(PyObject *object, PyObject *name)
{
    PyObject *attributes = attributes_of(object);
    int found = attributes == NULL ? -1 : PyDict_Contains(attributes, name);
    Py_XDECREF(attributes);
    return found < 0 ? -1 : !found;
}

/* ---- modules ---------------------------------------------------------------------------------------------------- */
enum { N_HOOKS = 4 };
static PyObject *hook_names[N_HOOKS];

static int
intern_names(void)
{
    const char *names[] = {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"};
    for (int i = 0; i < N_HOOKS; i++)
        hook_names[i] = PyUnicode_InternFromString(names[i]);
    return PyErr_Occurred() ? -1 : 0;
}

static int
no_hooks(PyObject *module, Place *places)
{
    PyObject *attributes = attributes_of(module);
    int answer = attributes == NULL ? -1 : 1;
    for (int i = 0; i < N_HOOKS && answer == 1; i++) {
        PyObject *name = Py_NewRef(hook_names[i]), *hooks = find_in_dict(attributes, &name, &places[i].index);
        Py_DECREF(name);
        answer = hooks == NULL ? -1 : PyDict_Check(hooks) ? PyDict_GET_SIZE(hooks) == 0 : PyObject_Not(hooks);
    }
    Py_XDECREF(attributes);
    return answer < 0 && !PyErr_Occurred() ? 0 : answer; /* no dict of hooks: no module */
}
