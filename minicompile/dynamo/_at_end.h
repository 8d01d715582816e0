/* What waits for the end of the outermost compiled call of this thread.
 *
 * Goes in: functions.  Comes out: they are called, in order, when the program is out of compiled code. */
#pragma once
#include "_cpython_frames.h"

static _Thread_local PyObject *tls_at_end; /* list of what waits for the end of the outermost `call`, or NULL */
static _Thread_local int tls_depth; /* of `call`s that run */

static PyObject * /* steals `result`: NULL with an exception, which goes on whatever the functions do */
call_at_end(PyObject *result)
{
    PyObject *type, *value, *traceback, *functions = tls_at_end;
    PyErr_Fetch(&type, &value, &traceback);
    tls_at_end = NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(functions); i++) {
        PyObject *answer = PyObject_CallNoArgs(PyList_GET_ITEM(functions, i));
        if (answer == NULL && type == NULL) {
            PyErr_Fetch(&type, &value, &traceback);
            Py_CLEAR(result);
        } else if (answer == NULL)
            PyErr_WriteUnraisable(PyList_GET_ITEM(functions, i));
        Py_XDECREF(answer);
    }
    Py_DECREF(functions);
    PyErr_Restore(type, value, traceback);
    return result;
}

static PyObject *
py_at_end(PyObject *module, PyObject *function)
{
    if (tls_depth == 0)
        return PyObject_CallNoArgs(function);
    if (tls_at_end == NULL && (tls_at_end = PyList_New(0)) == NULL)
        return NULL;
    return PyList_Append(tls_at_end, function) < 0 ? NULL : Py_NewRef(Py_None);
}
