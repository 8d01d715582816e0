/* The compiled entries of a code object, kept on the code object itself (co_extra).
 *
 * Goes in: a code object, and what the callback answered.  Comes out: its entries, most recent hit first, and the Python
 * functions that look at them and remove them.
 *
 * The cache dies with its code, but the garbage collector does not look into code objects: what an entry's guard and
 * constants hold strongly (a model, say) must not lead back to the code, or it never dies.  Hold such things weakly, and
 * `invalidate` the entry when they go.
 *
 * Mirrors torch/csrc/dynamo/extra_state.cpp.  Taught in chapter 01. */
#pragma once
#include "_cpython_frames.h"

/* A cache entry is a 4-tuple; a cache is a tuple of entries.  An entry serves only the callback that made it: one
 * function may be compiled with several backends.  One with the guard False has no code: where no guard of that callback
 * holds, the frame runs as it is. */
enum { E_GUARD, E_CODE, E_FLAT, E_CALLBACK };
#define SKIP ((PyObject *)1)      /* co_extra value: leave this code alone */
#define KIND (CO_OPTIMIZED | CO_NEWLOCALS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)
#define PLAIN_FUNCTION (CO_OPTIMIZED | CO_NEWLOCALS)

static Py_ssize_t extra_index = -1;

static void
extra_free(void *p) /* CPython calls this with NULL too */
{
    if (p != NULL && p != SKIP)
        Py_DECREF((PyObject *)p);
}

static inline PyObject * /* borrowed: NULL, SKIP or the tuple of entries */
cache_of(PyCodeObject *co)
{
    /* _PyCodeObjectExtra of codeobject.c.  Read in place: for a frame that we do not want, the call of
     * _PyCode_GetExtra would take as long as all else that the hook does. */
    struct { Py_ssize_t size; void *items[]; } *extra = co->co_extra;
    return extra != NULL && extra_index < extra->size ? extra->items[extra_index] : NULL;
}

/* Steals value.  The old entries die only after the new value stands: their destructors may look at this cache. */
static int
set_cache(PyCodeObject *co, PyObject *value)
{
    PyObject *old = cache_of(co);
    if (old != SKIP)
        Py_XINCREF(old);
    int result = _PyCode_SetExtra((PyObject *)co, extra_index, value);
    extra_free(result < 0 ? value : NULL);
    extra_free(old);
    return result;
}

static inline int /* slots at the front of localsplus that are arguments */
count_args(PyCodeObject *co)
{
    return co->co_argcount + co->co_kwonlyargcount + !!(co->co_flags & CO_VARARGS)
        + !!(co->co_flags & CO_VARKEYWORDS);
}

/* ---- entries ------------------------------------------------------------------------------------------------- */
static PyObject * /* new tuple: `first` (may be NULL), then the entries of `rest` (may be NULL or SKIP) but `without` */
rebuild(PyObject *first, PyObject *rest, PyObject *without)
{
    Py_ssize_t n = rest != NULL && rest != SKIP ? PyTuple_GET_SIZE(rest) : 0, size = first != NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        size += PyTuple_GET_ITEM(rest, i) != without;
    PyObject *all = PyTuple_New(size);
    if (all == NULL)
        return NULL;
    Py_ssize_t k = 0;
    if (first != NULL)
        PyTuple_SET_ITEM(all, k++, Py_NewRef(first));
    for (Py_ssize_t i = 0; i < n; i++)
        if (PyTuple_GET_ITEM(rest, i) != without)
            PyTuple_SET_ITEM(all, k++, Py_NewRef(PyTuple_GET_ITEM(rest, i)));
    return all;
}

static PyObject * /* the new code with every argument a plain positional one; marked, so that it is never asked for */
flatten(PyObject *code)
{
    PyCodeObject *co = (PyCodeObject *)code;
    PyObject *flat = NULL, *none = PyTuple_New(0), *replace = PyObject_GetAttrString(code, "replace");
    PyObject *changes = Py_BuildValue("{s:i,s:i,s:i,s:i}", "co_argcount", count_args(co), "co_posonlyargcount",
                                      count_args(co), "co_kwonlyargcount", 0, "co_flags",
                                      co->co_flags & ~(CO_VARARGS | CO_VARKEYWORDS));
    if (none != NULL && replace != NULL && changes != NULL)
        flat = PyObject_Call(replace, none, changes);
    if (flat != NULL && set_cache((PyCodeObject *)flat, SKIP) < 0)
        Py_CLEAR(flat);
    Py_XDECREF(none);
    Py_XDECREF(replace);
    Py_XDECREF(changes);
    return flat;
}

static PyObject * /* new reference; NULL with an exception */
new_entry(PyCodeObject *co, PyObject *code, PyObject *guard, PyObject *callback)
{
    if (guard == Py_False)
        return PyTuple_Pack(4, guard, Py_None, Py_None, callback);
    PyCodeObject *new = (PyCodeObject *)code;
    if (!PyCode_Check(code) || count_args(new) != count_args(co) || new->co_nfreevars != co->co_nfreevars
            || ((new->co_flags ^ co->co_flags) & KIND))
        return PyErr_Format(PyExc_TypeError, "replacement code does not fit %R", co);
    PyObject *flat = flatten(code);
    PyObject *entry = flat != NULL && set_cache(new, SKIP) == 0 ? PyTuple_Pack(4, guard, code, flat, callback) : NULL;
    Py_XDECREF(flat);
    return entry;
}

static PyObject * /* new reference to the new entry */
add_entry(PyCodeObject *co, PyObject *code, PyObject *guard, PyObject *callback)
{
    PyObject *entry = new_entry(co, code, guard, callback);
    PyObject *all = entry != NULL ? rebuild(entry, cache_of(co), NULL) : NULL;
    if (all == NULL || set_cache(co, all) < 0)
        Py_CLEAR(entry);
    return entry;
}

/* ---- the Python functions ------------------------------------------------------------------------------------ */
static int
is_code(PyObject *o)
{
    if (!PyCode_Check(o))
        PyErr_SetString(PyExc_TypeError, "expected a code object");
    return PyCode_Check(o);
}

static PyObject *
py_skip(PyObject *module, PyObject *code)
{
    if (!is_code(code) || set_cache((PyCodeObject *)code, SKIP) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
py_reset(PyObject *module, PyObject *code)
{
    if (!is_code(code) || set_cache((PyCodeObject *)code, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *
py_entries(PyObject *module, PyObject *code)
{
    PyObject *result = is_code(code) ? PyList_New(0) : NULL;
    if (result == NULL)
        return NULL;
    PyObject *cache = cache_of((PyCodeObject *)code);
    for (Py_ssize_t i = 0; cache != NULL && cache != SKIP && i < PyTuple_GET_SIZE(cache); i++) {
        PyObject *entry = PyTuple_GET_ITEM(cache, i);
        PyObject *pair = PyTuple_Pack(2, PyTuple_GET_ITEM(entry, E_GUARD), PyTuple_GET_ITEM(entry, E_CODE));
        int failed = pair == NULL || PyList_Append(result, pair) < 0;
        Py_XDECREF(pair);
        if (failed) {
            Py_DECREF(result);
            return NULL;
        }
    }
    return result;
}

static PyObject *
py_invalidate(PyObject *module, PyObject *args)
{
    PyObject *code, *guard;
    if (!PyArg_ParseTuple(args, "O!O", &PyCode_Type, &code, &guard))
        return NULL;
    PyObject *cache = cache_of((PyCodeObject *)code);
    for (Py_ssize_t i = 0; cache != NULL && cache != SKIP && i < PyTuple_GET_SIZE(cache); i++) {
        PyObject *entry = PyTuple_GET_ITEM(cache, i);
        if (PyTuple_GET_ITEM(entry, E_GUARD) != guard)
            continue;
        PyObject *rest = PyTuple_GET_SIZE(cache) > 1 ? rebuild(NULL, cache, entry) : NULL;
        if (PyErr_Occurred() || set_cache((PyCodeObject *)code, rest) < 0)
            return NULL;
        Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}
