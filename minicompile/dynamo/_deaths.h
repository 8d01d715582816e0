/* Whether the program might see an object die: by a weak reference, or by what `__del__` does.
 *
 * Goes in: a list, and a type whose objects do nothing when they die (tensors).  Comes out: is something that nobody
 * but the list refers to, directly or through others such, an object of that kind?
 *
 * The search goes as the garbage collector does, through what each object owns. */
#pragma once
#include "_cpython_frames.h"

#define DEEPEST 500 /* of objects in objects; what lies deeper is taken to be seen */

typedef struct {
    PyTypeObject *harmless;
    int depth;
} Search;

static bool
is_plain(PyTypeObject *type) /* not so what derives from these */
{
    return type == &PyLong_Type || type == &PyBool_Type || type == &PyFloat_Type || type == &PyComplex_Type
           || type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyModule_Type;
}

static int
dies_visibly(PyObject *value, void *context)
{
    Search *search = context;
    PyTypeObject *type = Py_TYPE(value);
    if (Py_REFCNT(value) > 1 || is_plain(type) || PyType_IsSubtype(type, search->harmless))
        return 0;
    if (type->tp_finalize != NULL || search->depth == DEEPEST
            || (PyType_SUPPORTS_WEAKREFS(type) && *PyObject_GET_WEAKREFS_LISTPTR(value) != NULL))
        return 1;
    if (!PyObject_IS_GC(value))
        return 0;
    search->depth++;
    int found = type->tp_traverse(value, dies_visibly, search);
    search->depth--;
    return found;
}

static bool
sees_death(PyObject *list, PyObject *harmless)
{
    Search search = {(PyTypeObject *)harmless, 0};
    return PyList_Type.tp_traverse(list, dies_visibly, &search);
}
