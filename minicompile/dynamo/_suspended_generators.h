/* Where a suspended generator stands: read, so that capture goes on in its place, and written, when the graph has run.
 *
 * Goes in: a generator.  Comes out: its frame's place, code, namespaces, locals and stack; or the generator, moved on.
 *
 * torch.compile leaves generators that exist already to eager.  Taught in chapter 06. */
#pragma once
#include "_cpython_frames.h"

#if PY_VERSION_HEX >= 0x030D0000
#define F_NEXT(f) ((f)->instr_ptr)
#define F_GO_ON_AT(f, instruction) ((f)->instr_ptr = (instruction))
#define SUSPENDED_BEHIND(instruction) (FRAME_SUSPENDED + ((instruction) - 1)->op.arg) /* 1: in a `yield from` */
#else
#define F_NEXT(f) ((f)->prev_instr + 1)
#define F_GO_ON_AT(f, instruction) ((f)->prev_instr = (instruction) - 1)
#define SUSPENDED_BEHIND(instruction) FRAME_SUSPENDED
#endif
#define GENERATOR_FRAME(g) ((_PyInterpreterFrame *)((PyGenObject *)(g))->gi_iframe)

static PyObject *
py_suspended_state(PyObject *module, PyObject *object)
{
    PyGenObject *generator = (PyGenObject *)object;
    if (!PyGen_CheckExact(object) || generator->gi_frame_state == FRAME_EXECUTING)
        Py_RETURN_NONE;
    if (generator->gi_frame_state >= FRAME_COMPLETED)
        return PyTuple_New(0);
    PyObject *handled = generator->gi_exc_state.exc_value;
    if (handled != NULL && handled != Py_None)
        Py_RETURN_NONE;
    _PyInterpreterFrame *f = GENERATOR_FRAME(generator);
    PyObject *state = PyTuple_New(4 + f->stacktop), *bound = PyBytes_FromStringAndSize(NULL, f->stacktop);
    if (state == NULL || bound == NULL) {
        Py_XDECREF(state);
        Py_XDECREF(bound);
        return NULL;
    }
    for (int i = 0; i < f->stacktop; i++) {
        PyObject *value = f->localsplus[i];
        PyBytes_AS_STRING(bound)[i] = value != NULL;
        PyTuple_SET_ITEM(state, 4 + i, Py_NewRef(value != NULL ? value : Py_None));
    }
    int offset = (int)((F_NEXT(f) - _PyCode_CODE(F_CODE(f))) * sizeof(_Py_CODEUNIT));
    PyTuple_SET_ITEM(state, 1, Py_NewRef((PyObject *)F_CODE(f)));
    PyTuple_SET_ITEM(state, 2, Py_NewRef(f->f_globals));
    PyTuple_SET_ITEM(state, 3, Py_NewRef(f->f_builtins)); /* as they were when its function was made */
    PyTuple_SET_ITEM(state, 0, Py_BuildValue("iN", offset, bound));
    if (PyTuple_GET_ITEM(state, 0) == NULL)
        Py_CLEAR(state);
    return state;
}

/* Give the frame other locals and another stack.  Returns the old ones, which may die when the frame is whole again. */
static PyObject *
exchange_values(_PyInterpreterFrame *f, const char *bound, PyObject *values, int size)
{
    PyObject *old = PyTuple_New(f->stacktop);
    if (old == NULL)
        return NULL;
    for (int i = 0; i < f->stacktop; i++) /* NULL too, which a tuple that nobody sees may hold */
        PyTuple_SET_ITEM(old, i, f->localsplus[i]);
    for (int i = 0; i < size; i++)
        f->localsplus[i] = bound != NULL && bound[i] ? Py_NewRef(PyTuple_GET_ITEM(values, i)) : NULL;
    f->stacktop = size;
    return old;
}

static PyObject *
py_move_generator(PyObject *module, PyObject *args)
{
    PyObject *generator, *values, *old;
    const char *bound;
    int offset;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O!(iy#)O!", &PyGen_Type, &generator, &offset, &bound, &size, &PyTuple_Type, &values))
        return NULL;
    _PyInterpreterFrame *f = GENERATOR_FRAME(generator);
    _Py_CODEUNIT *instruction = _PyCode_CODE(F_CODE(f)) + offset / sizeof(_Py_CODEUNIT);
    old = exchange_values(f, bound, values, (int)size);
    if (old == NULL)
        return NULL;
    F_GO_ON_AT(f, instruction);
    ((PyGenObject *)generator)->gi_frame_state = SUSPENDED_BEHIND(instruction);
    Py_DECREF(old);
    Py_RETURN_NONE;
}

static PyObject * /* as if its body had ended: it has nothing left, and is closed as one that never ran */
py_end_generator(PyObject *module, PyObject *generator)
{
    _PyInterpreterFrame *f = GENERATOR_FRAME(generator);
    PyObject *old = exchange_values(f, NULL, NULL, F_CODE(f)->co_nlocalsplus);
    if (old == NULL)
        return NULL;
    F_GO_ON_AT(f, _PyCode_CODE(F_CODE(f)) + 1); /* where no handler stands */
    ((PyGenObject *)generator)->gi_frame_state = FRAME_CREATED;
    PyObject *result = PyObject_CallMethod(generator, "close", NULL);
    Py_DECREF(old);
    return result;
}
