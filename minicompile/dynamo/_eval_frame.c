/* The frame hook (PEP 523): the interpreter hands us each new Python frame before it runs.
 *
 * Goes in: a callback, `callback(code, function, args) -> None | False | (new_code, guard)`, set for one thread.
 *     args are the frame's raw arguments: positional, keyword-only, the *args tuple, the **kwargs dict.
 *     None: run this frame as it is, ask again next time.  False: never ask again for this code.
 *     (new_code, guard): remember the pair, run new_code instead.  guard is None or a callable,
 *     `guard(function, *args)`; an entry is used when its guard returns a true value.
 *     (None, False): ask only the guards that there are; where none holds, run the frame as it is.
 * Comes out: the user's function runs new_code, found again through a cache on the code object (co_extra).
 *
 * A replacement runs in one of two ways:
 *   morph  turn the not yet started frame, in place, into a frame of the new code (the arguments already stand
 *          in localsplus[0..n)), then let the default evaluator run it.
 *   call   where the larger frame does not fit into the data-stack chunk: call a function made of the new code
 *          "flattened" (every argument a plain positional one), then discard the original frame.
 *
 * While the callback or a guard runs, the hook is off on that thread.  Guards are hidden from sys.settrace and
 * profilers, so that a user who steps into a compiled function does not see them; the callback (the compiler) is not.
 *
 * While the hook is installed CPython keeps a call's arguments alive until the call returns, and calls of Python
 * functions are slower: so it is only on during a `call`.
 *
 * Mirrors torch/csrc/dynamo/eval_frame.c.  Taught in chapter 01. */
#include "_at_end.h"
#include "_deaths.h"
#include "_frame_cache.h"
#include "_suspended_generators.h"

/* ---- state ------------------------------------------------------------------------------------------------- */
static _Thread_local PyObject *tls_callback; /* strong reference; NULL = off */
static _Thread_local PyObject *tls_handed_over; /* list of a call's arguments, emptied once their frame holds them */
static int n_active; /* threads with a callback: while it is above 0 the hook is installed */
static int always_call;
static _PyFrameEvalFunction previous_eval;
static _PyFrameEvalFunction covering; /* a tool that was installed over the hook: frames reach the hook through it */

/* ---- running a replacement ----------------------------------------------------------------------------------- */
static inline PyObject *
run_default(PyThreadState *ts, _PyInterpreterFrame *f, int throwflag)
{
#if PY_VERSION_HEX >= 0x030C0000
    int units = tls_stack_low != NULL ? 2 : 0; /* PY_EVAL_C_STACK_UNITS */
    ts->c_recursion_remaining += units;
    PyObject *result = previous_eval(ts, f, throwflag);
    ts->c_recursion_remaining -= units;
    return result;
#else
    return previous_eval(ts, f, throwflag);
#endif
}

static int
morph(PyThreadState *ts, _PyInterpreterFrame *f, PyCodeObject *new)
{
    PyCodeObject *old = F_CODE(f);
    PyObject **base = (PyObject **)f;
    if (base + FRAME_SIZE(old) != ts->datastack_top || base + FRAME_SIZE(new) >= ts->datastack_limit)
        return 0;
    ts->datastack_top = base + FRAME_SIZE(new);
    for (int i = old->co_nlocalsplus; i < new->co_nlocalsplus; i++)
        f->localsplus[i] = NULL;
    f->stacktop = new->co_nlocalsplus;
    F_SET_CODE(f, (PyCodeObject *)Py_NewRef(new));
    F_REWIND(f, new);
    Py_DECREF(old);
    return 1;
}

static PyObject *
call_flat(PyThreadState *ts, _PyInterpreterFrame *f, PyObject *flat_code)
{
    PyObject *result = NULL;
    PyFunctionObject *flat = (PyFunctionObject *)PyFunction_New(flat_code, f->f_globals);
    if (flat != NULL) {
        Py_SETREF(flat->func_builtins, Py_NewRef(f->f_builtins));
        Py_XSETREF(flat->func_closure, Py_XNewRef(F_FUNC(f)->func_closure));
        result = PyObject_Vectorcall((PyObject *)flat, f->localsplus, count_args(F_CODE(f)), NULL);
        Py_DECREF(flat);
    }
    drop_frame(ts, f);
    return result;
}

static PyObject *
run_entry(PyThreadState *ts, _PyInterpreterFrame *f, PyObject *entry)
{
    if (!always_call && morph(ts, f, (PyCodeObject *)PyTuple_GET_ITEM(entry, E_CODE)))
        return run_default(ts, f, 0);
    return call_flat(ts, f, PyTuple_GET_ITEM(entry, E_FLAT));
}

/* The new code of a frame that breaks returns a Continuation: a list, [function, *arguments], to be called next.  We do
 * that here, when the frame is gone: so each piece of a function is called by the function's own caller, and the stack
 * is as deep as in eager.  `f` has only been popped where that is not our caller's task. */
static PyObject *continuation_type;

static PyObject * /* steals `call`; the frame that is called takes its arguments over */
call_handed_over(PyObject *call)
{
    PyObject **items = &PyList_GET_ITEM(call, 0), *function = Py_NewRef(items[0]);
    tls_handed_over = call;
    PyObject *result = PyObject_Vectorcall(function, items + 1, PyList_GET_SIZE(call) - 1, NULL);
    tls_handed_over = NULL;
    Py_DECREF(function);
    Py_DECREF(call);
    return result;
}

/* Until 3.12 the dict that `locals()` returns is part of the frame, and keeps alive what it shows: a frame that goes on
 * for another takes it over, in the `__dict__` of its function. */
static PyObject *
py_keep_locals(PyObject *module, PyObject *function)
{
#if PY_VERSION_HEX < 0x030D0000
    PyObject *locals = PyThreadState_Get()->cframe->current_frame->f_locals;
    if (locals != NULL && PyFunction_Check(function))
        Py_XSETREF(((PyFunctionObject *)function)->func_dict, Py_NewRef(locals));
#endif
    return Py_NewRef(function);
}

static void
take_locals(_PyInterpreterFrame *f)
{
#if PY_VERSION_HEX < 0x030D0000
    if (f->f_locals == NULL)
        f->f_locals = Py_XNewRef(F_FUNC(f)->func_dict);
#endif
}

static PyObject * /* steals result */
run_continuations(_PyInterpreterFrame *f, PyObject *result)
{
    while (result != NULL && Py_IS_TYPE(result, (PyTypeObject *)continuation_type)) {
#if PY_VERSION_HEX < 0x030C0000
        for (int i = 0; f->frame_obj == NULL && i < f->stacktop; i++)
            Py_CLEAR(f->localsplus[i]);
#endif
        result = call_handed_over(result);
    }
    return result;
}

/* ---- the cache ----------------------------------------------------------------------------------------------- */
enum { FEW = 16 };

static PyObject * /* new reference to the entry whose guard holds; NULL without an exception when there is none */
find_entry(PyThreadState *ts, PyCodeObject *co, _PyInterpreterFrame *f, PyObject *cache, PyObject *callback)
{
    int n = count_args(co);
    PyObject *few[FEW], **args = n < FEW ? few : PyMem_New(PyObject *, n + 1), *entry = NULL, *otherwise = NULL;
    if (args == NULL)
        return PyErr_NoMemory();
    args[0] = (PyObject *)F_FUNC(f);
    memcpy(args + 1, f->localsplus, n * sizeof(PyObject *));
    Py_INCREF(cache); /* a guard may reset the cache, or let another thread run that does */
    PyThreadState_EnterTracing(ts);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cache) && entry == NULL; i++) {
        PyObject *candidate = PyTuple_GET_ITEM(cache, i), *guard = PyTuple_GET_ITEM(candidate, E_GUARD);
        int holds = PyTuple_GET_ITEM(candidate, E_CALLBACK) == callback;
        if (holds && guard == Py_False) {
            otherwise = candidate;
            continue;
        }
        if (holds && guard != Py_None) {
            PyObject *answer = PyObject_Vectorcall(guard, args, n + 1, NULL);
            holds = answer == NULL ? -1 : PyObject_IsTrue(answer);
            Py_XDECREF(answer);
            if (holds < 0 && PyErr_ExceptionMatches(PyExc_RecursionError)) {
                PyErr_Clear(); /* as in ask_callback */
                holds = 0;
            }
        }
        if (holds < 0)
            break;
        if (holds)
            entry = Py_NewRef(candidate);
    }
    PyThreadState_LeaveTracing(ts);
    if (entry != NULL && entry != PyTuple_GET_ITEM(cache, 0) && cache_of(co) == cache) {
        PyObject *all = rebuild(entry, cache, entry); /* most recent hit first */
        if (all == NULL || set_cache(co, all) < 0)
            Py_CLEAR(entry);
    }
    if (entry == NULL && !PyErr_Occurred())
        entry = Py_XNewRef(otherwise);
    Py_DECREF(cache);
    if (args != few)
        PyMem_Free(args);
    return entry;
}

static PyObject * /* new reference; NULL without an exception when the frame is to run as it is */
ask_callback(PyCodeObject *co, _PyInterpreterFrame *f, PyObject *callback)
{
    int n = count_args(co);
    PyObject *entry = NULL, *answer = NULL, *args = PyTuple_New(n);
    if (args == NULL)
        return NULL;
    for (int i = 0; i < n; i++)
        PyTuple_SET_ITEM(args, i, Py_NewRef(f->localsplus[i]));
    answer = PyObject_CallFunctionObjArgs(callback, co, F_FUNC(f), args, NULL);
    Py_DECREF(args);
    if (answer == NULL && PyErr_ExceptionMatches(PyExc_RecursionError))
        PyErr_Clear(); /* the compiler has no room here: the program may have, or meets the limit by itself */
    if (answer == Py_False)
        set_cache(co, SKIP);
    else if (answer != NULL && answer != Py_None) {
        if (PyTuple_Check(answer) && PyTuple_GET_SIZE(answer) == 2)
            entry = add_entry(co, PyTuple_GET_ITEM(answer, 0), PyTuple_GET_ITEM(answer, 1), callback);
        else
            PyErr_SetString(PyExc_TypeError, "the callback must return None, False or (code, guard)");
    }
    Py_XDECREF(answer);
    return entry;
}

/* ---- the hook ------------------------------------------------------------------------------------------------ */
static PyObject *swap_callback(PyObject *);

static PyObject * __attribute__((noinline)) /* so that eval_hook has few registers to save */
consider(PyThreadState *ts, _PyInterpreterFrame *f, int throwflag)
{
    if (stack_is_short() && !throwflag && f->owner == FRAME_OWNED_BY_THREAD) {
        PyErr_SetString(PyExc_RecursionError, "maximum C stack depth exceeded");
        drop_frame(ts, f);
        return NULL;
    }
    int continues = tls_handed_over != NULL;
    if (continues) { /* the frame holds the arguments now */
        PyObject *call = tls_handed_over;
        tls_handed_over = NULL;
        PyList_SetSlice(call, 0, PY_SSIZE_T_MAX, NULL);
        take_locals(f);
    }
    if (tls_callback == NULL || throwflag)
        return run_default(ts, f, throwflag);
    PyCodeObject *co = F_CODE(f);
    PyObject *cache = cache_of(co), *entry = NULL, *result = NULL;
    if (cache == SKIP || (co->co_flags & KIND) != PLAIN_FUNCTION || f->owner != FRAME_OWNED_BY_THREAD
            || (f->f_locals != NULL && !continues) || f->frame_obj != NULL || ts->tracing)
        return run_default(ts, f, throwflag);
    PyObject *first = cache != NULL ? PyTuple_GET_ITEM(cache, 0) : NULL;
    if (first != NULL && PyTuple_GET_ITEM(first, E_GUARD) == Py_None
            && PyTuple_GET_ITEM(first, E_CALLBACK) == tls_callback)
        entry = Py_NewRef(PyTuple_GET_ITEM(cache, 0));
    else {
        PyObject *callback = tls_callback;
        tls_callback = NULL; /* the hook is off in guards and in the callback; n_active still counts us */
        if (cache != NULL)
            entry = find_entry(ts, co, f, cache, callback);
        if (entry == NULL && !PyErr_Occurred())
            entry = ask_callback(co, f, callback);
        if (tls_callback != NULL) /* the callback left one of its own behind */
            Py_XDECREF(swap_callback(NULL));
        tls_callback = callback;
    }
    if (entry != NULL && PyTuple_GET_ITEM(entry, E_GUARD) == Py_False)
        Py_CLEAR(entry);
    if (entry != NULL) {
        result = run_entry(ts, f, entry);
        Py_DECREF(entry);
        if (!continues)
            result = run_continuations(f, result);
    }
    else if (PyErr_Occurred())
        drop_frame(ts, f);
    else
        result = run_default(ts, f, 0);
    return result;
}

static PyObject * /* what CPython calls for every frame while the hook is on: nearly all are not for us */
eval_hook(PyThreadState *ts, _PyInterpreterFrame *f, int throwflag)
{
    if (cache_of(F_CODE(f)) == SKIP && tls_handed_over == NULL && !stack_is_short())
        return run_default(ts, f, throwflag);
    return consider(ts, f, throwflag);
}

/* ---- the Python functions ------------------------------------------------------------------------------------ */
static PyObject * /* steals callback; returns the earlier one (may be NULL) */
swap_callback(PyObject *callback)
{
    PyObject *old = tls_callback;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (!tls_stack_known)
        find_stack_bounds();
    _PyFrameEvalFunction current = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (old == NULL && callback != NULL && n_active++ == 0 && current != eval_hook && current != covering) {
        previous_eval = current;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, eval_hook);
    }
    if (old != NULL && callback == NULL && --n_active == 0) {
        covering = current == eval_hook ? NULL : current;
        if (covering == NULL)
            _PyInterpreterState_SetEvalFrameFunc(interpreter, previous_eval);
    }
    tls_callback = callback;
    return old;
}

static PyObject *
py_set_callback(PyObject *module, PyObject *callback)
{
    PyObject *old = swap_callback(callback == Py_None ? NULL : Py_NewRef(callback));
    return old != NULL ? old : Py_NewRef(Py_None);
}

static PyObject *
py_call(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (n < 2)
        return PyErr_Format(PyExc_TypeError, "call(callback, fn, *args, **kwargs)");
    PyObject *old = swap_callback(args[0] == Py_None ? NULL : Py_NewRef(args[0]));
    tls_depth++;
    PyObject *result = PyObject_Vectorcall(args[1], args + 2, n - 2, kwnames);
    Py_XDECREF(swap_callback(old));
    return --tls_depth == 0 && tls_at_end != NULL ? call_at_end(result) : result;
}

static PyObject *
py_call_piece(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !Py_IS_TYPE(args[0], (PyTypeObject *)continuation_type) || !PyType_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "call_piece(continuation, harmless type)");
    PyObject *result = call_handed_over(Py_NewRef(args[0]));
    while (result != NULL && Py_IS_TYPE(result, (PyTypeObject *)continuation_type) && sees_death(result, args[1]))
        result = call_handed_over(result);
    return result;
}

static PyObject *
py_set_always_call(PyObject *module, PyObject *flag)
{
    int value = PyObject_IsTrue(flag);
    if (value < 0)
        return NULL;
    always_call = value;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"call", (PyCFunction)(void (*)(void))py_call, METH_FASTCALL | METH_KEYWORDS,
     "call(callback, fn, *args, **kwargs): run fn with the hook set to `callback` on this thread (None: off)"},
    {"at_end", py_at_end, METH_O,
     "at_end(function): call it when this thread's outermost `call` has ended; now, where there is none"},
    {"call_piece", (PyCFunction)(void (*)(void))py_call_piece, METH_FASTCALL,
     "call_piece(continuation, harmless) -> its result, or what is left to do.  Where that is the only owner of an object\n"
     "whose death the program might see, the object would die too late if the caller went on with it: it ends first.\n"
     "harmless: a type (torch.Tensor) whose objects' deaths nobody sees."},
    {"keep_locals", py_keep_locals, METH_O,
     "keep_locals(function) -> function: when it is called by a Continuation, its frame has the caller's `locals()`"},
    {"set_callback", py_set_callback, METH_O,
     "set_callback(callback or None) -> the earlier one.  A thread must not end with one set: prefer `call`."},
    {"skip", py_skip, METH_O, "skip(code): never ask for this code"},
    {"reset", py_reset, METH_O, "reset(code): forget its entries, and that it is to be skipped"},
    {"entries", py_entries, METH_O, "entries(code) -> [(guard, code), ...], most recent hit first"},
    {"invalidate", py_invalidate, METH_VARARGS, "invalidate(code, guard) -> bool: remove the entry of this guard"},
    {"set_always_call", py_set_always_call, METH_O,
     "set_always_call(flag): run every replacement by call, never by morph (tests of the fallback use it)"},
    {"suspended_state", py_suspended_state, METH_O,
     "suspended_state(generator) -> ((offset, which are bound), code, globals, builtins, *values); (): ended; or None"},
    {"move_generator", py_move_generator, METH_VARARGS,
     "move_generator(generator, (offset, which values are bound), values)"},
    {"end_generator", py_end_generator, METH_O, "end_generator(generator)"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_eval_frame", "The frame hook; see the head of _eval_frame.c.", -1, methods};

PyMODINIT_FUNC
PyInit__eval_frame(void)
{
    extra_index = _PyEval_RequestCodeExtraIndex(extra_free);
    if (extra_index < 0)
        return PyErr_Format(PyExc_RuntimeError, "no co_extra slot left in this interpreter");
    PyType_Slot slots[] = {{0, NULL}};
    PyType_Spec spec = {"minicompile.dynamo._eval_frame.Continuation", 0, 0, Py_TPFLAGS_DEFAULT, slots};
    continuation_type = PyType_FromSpecWithBases(&spec, (PyObject *)&PyList_Type);
    PyObject *module = continuation_type != NULL ? PyModule_Create(&definition) : NULL;
    if (module != NULL && PyModule_AddObjectRef(module, "Continuation", continuation_type) < 0)
        Py_CLEAR(module);
    return module;
}
