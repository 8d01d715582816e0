/* The frame hook (PEP 523): the interpreter hands us each new Python frame before it runs.
 *
 * Goes in: a callback, `callback(code, function, args) -> None | False | (new_code, guard)`, set for one thread.
 *     args are the frame's raw arguments: positional, keyword-only, the *args tuple, the **kwargs dict.
 *     None: run this frame as it is, ask again next time.  False: never ask again for this code.
 *     (new_code, guard): remember the pair, run new_code instead.  guard is None or a callable,
 *     `guard(function, *args)`; an entry is used when its guard returns a true value.
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
 * The cache belongs to the code object and dies with it, but the garbage collector does not look into code objects:
 * what an entry's guard and constants hold strongly (a model, say) must not lead back to the code, or it never dies.
 * Hold such things weakly, and `invalidate` the entry when they go.  While the hook is installed CPython keeps a call's
 * arguments alive until the call returns, and calls of Python functions are slower: so it is only on during a `call`.
 *
 * Mirrors torch/csrc/dynamo/eval_frame.c, extra_state.cpp and cpython_defs.c.  Taught in chapter 01. */
#define _GNU_SOURCE /* pthread_getattr_np */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#ifdef __linux__
#include <pthread.h>
#endif
#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000 || defined(Py_GIL_DISABLED)
#error "minicompile supports CPython 3.11, 3.12 and 3.13 (with the GIL)"
#endif
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED /* 3.12: clashes with pycore_gc.h */
#include "internal/pycore_frame.h"
#if PY_VERSION_HEX >= 0x030D0000
#include "internal/pycore_ceval.h" /* _PyEval_FrameClearAndPop (exported) */
#endif
#undef Py_BUILD_CORE

/* ---- what differs between versions ------------------------------------------------------------------------- */
#if PY_VERSION_HEX >= 0x030C0000 /* 3.12 renamed the co_extra API */
#define _PyCode_SetExtra PyUnstable_Code_SetExtra
#define _PyEval_RequestCodeExtraIndex PyUnstable_Eval_RequestCodeExtraIndex
#define F_FUNC(f) ((PyFunctionObject *)(f)->f_funcobj)
#define FRAME_SIZE(c) ((c)->co_framesize)
#else
#define F_FUNC(f) ((f)->f_func)
#define FRAME_SIZE(c) ((c)->co_nlocalsplus + (c)->co_stacksize + (int)FRAME_SPECIALS_SIZE)
#endif
#if PY_VERSION_HEX >= 0x030D0000
#define F_CODE(f) ((PyCodeObject *)(f)->f_executable)
#define F_SET_CODE(f, c) ((f)->f_executable = (PyObject *)(c))
#define F_REWIND(f, c) ((f)->instr_ptr = _PyCode_CODE(c))
#else
#define F_CODE(f) ((f)->f_code)
#define F_SET_CODE(f, c) ((f)->f_code = (c))
#define F_REWIND(f, c) ((f)->prev_instr = _PyCode_CODE(c) - 1)
#endif

/* Discard a frame that never started.  3.11: nothing, our caller clears and pops it.  3.12 and later: it is our task,
 * as it is RETURN_VALUE's. */
static void
drop_frame(PyThreadState *ts, _PyInterpreterFrame *f)
{
#if PY_VERSION_HEX >= 0x030D0000
    _PyEval_FrameClearAndPop(ts, f);
#elif PY_VERSION_HEX >= 0x030C0000
    /* clear_thread_frame(), which 3.12 does not export; frame_obj is NULL */
    ts->c_recursion_remaining--;
    for (int i = 0; i < f->stacktop; i++)
        Py_XDECREF(f->localsplus[i]);
    Py_XDECREF(f->f_locals);
    Py_DECREF(f->f_funcobj);
    Py_DECREF(f->f_code);
    ts->c_recursion_remaining++;
    /* _PyThreadState_PopFrame() */
    PyObject **base = (PyObject **)f;
    _PyStackChunk *chunk = ts->datastack_chunk;
    if (base == &chunk->data[0]) {
        _PyStackChunk *previous = chunk->previous;
        PyObjectArenaAllocator arena;
        PyObject_GetArenaAllocator(&arena);
        ts->datastack_top = &previous->data[previous->top];
        ts->datastack_chunk = previous;
        ts->datastack_limit = (PyObject **)((char *)previous + previous->size);
        arena.free(arena.ctx, chunk, chunk->size);
    }
    else {
        ts->datastack_top = base;
    }
#else
    (void)ts;
    (void)f;
#endif
}

/* ---- state ------------------------------------------------------------------------------------------------- */
/* A cache entry is a 4-tuple; a cache is a tuple of entries.  An entry serves only the callback that made it: one
 * function may be compiled with several backends. */
enum { E_GUARD, E_CODE, E_FLAT, E_CALLBACK };
#define SKIP ((PyObject *)1)      /* co_extra value: leave this code alone */
#define KIND (CO_OPTIMIZED | CO_NEWLOCALS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)
#define PLAIN_FUNCTION (CO_OPTIMIZED | CO_NEWLOCALS)

static _Thread_local PyObject *tls_callback; /* strong reference; NULL = off */
static _Thread_local char *tls_stack_low;    /* lowest address of the C stack, NULL = unknown */
static _Thread_local int tls_stack_known;
static _Thread_local PyObject *tls_handed_over; /* list of a call's arguments, emptied once their frame holds them */
static Py_ssize_t extra_index = -1;
static int n_active; /* threads with a callback: while it is above 0 the hook is installed */
static int always_call;
static _PyFrameEvalFunction previous_eval;
static _PyFrameEvalFunction covering; /* a tool that was installed over the hook: frames reach the hook through it */

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

/* ---- C stack -------------------------------------------------------------------------------------------------
 * With a custom eval function each Python call nests C calls.  3.11 does not count those, so a large recursion limit
 * overflows the C stack; 3.12 and 3.13 count 2 units a call against a small limit, so that plain recursion fails at
 * depth 750.  So we compare the stack's address with its bounds ourselves, and give the units back. */
#define STACK_RESERVE (256 * 1024)
static void
find_stack_bounds(void)
{
    tls_stack_known = 1;
#ifdef __linux__
    pthread_attr_t attr;
    void *address;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &address, &size) == 0 && size > 2 * STACK_RESERVE)
        tls_stack_low = address;
    pthread_attr_destroy(&attr);
#endif
}

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

/* ---- running a replacement ----------------------------------------------------------------------------------- */
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

static PyObject * /* new reference to the new entry */
add_entry(PyCodeObject *co, PyObject *code, PyObject *guard, PyObject *callback)
{
    PyCodeObject *new = (PyCodeObject *)code;
    if (!PyCode_Check(code) || count_args(new) != count_args(co) || new->co_nfreevars != co->co_nfreevars
            || ((new->co_flags ^ co->co_flags) & KIND))
        return PyErr_Format(PyExc_TypeError, "replacement code does not fit %R", co);
    PyObject *flat = flatten(code);
    if (flat == NULL || set_cache(new, SKIP) < 0) {
        Py_XDECREF(flat);
        return NULL;
    }
    PyObject *entry = PyTuple_Pack(4, guard, code, flat, callback);
    Py_DECREF(flat);
    PyObject *all = entry != NULL ? rebuild(entry, cache_of(co), NULL) : NULL;
    if (all == NULL || set_cache(co, all) < 0)
        Py_CLEAR(entry);
    return entry;
}

enum { FEW = 16 };

static PyObject * /* new reference to the entry whose guard holds; NULL without an exception when there is none */
find_entry(PyThreadState *ts, PyCodeObject *co, _PyInterpreterFrame *f, PyObject *cache, PyObject *callback)
{
    int n = count_args(co);
    PyObject *few[FEW], **args = n < FEW ? few : PyMem_New(PyObject *, n + 1), *entry = NULL;
    if (args == NULL)
        return PyErr_NoMemory();
    args[0] = (PyObject *)F_FUNC(f);
    memcpy(args + 1, f->localsplus, n * sizeof(PyObject *));
    Py_INCREF(cache); /* a guard may reset the cache, or let another thread run that does */
    PyThreadState_EnterTracing(ts);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cache) && entry == NULL; i++) {
        PyObject *candidate = PyTuple_GET_ITEM(cache, i), *guard = PyTuple_GET_ITEM(candidate, E_GUARD);
        int holds = PyTuple_GET_ITEM(candidate, E_CALLBACK) == callback;
        if (holds && guard != Py_None) {
            PyObject *answer = PyObject_Vectorcall(guard, args, n + 1, NULL);
            holds = answer == NULL ? -1 : PyObject_IsTrue(answer);
            Py_XDECREF(answer);
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

static inline int
stack_is_short(void) /* unsigned: false on a foreign stack (fibers) and while tls_stack_low is NULL */
{
    return (size_t)((char *)__builtin_frame_address(0) - tls_stack_low) < STACK_RESERVE;
}

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
    }
    if (tls_callback == NULL || throwflag)
        return run_default(ts, f, throwflag);
    PyCodeObject *co = F_CODE(f);
    PyObject *cache = cache_of(co), *entry = NULL, *result = NULL;
    if (cache == SKIP || (co->co_flags & KIND) != PLAIN_FUNCTION || f->owner != FRAME_OWNED_BY_THREAD
            || f->f_locals != NULL || f->frame_obj != NULL || ts->tracing)
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
    PyObject *result = PyObject_Vectorcall(args[1], args + 2, n - 2, kwnames);
    Py_XDECREF(swap_callback(old));
    return result;
}

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

static PyObject *
py_call_piece(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2 || !Py_IS_TYPE(args[0], (PyTypeObject *)continuation_type))
        return PyErr_Format(PyExc_TypeError, "call_piece(continuation, must_end)");
    PyObject *result = call_handed_over(Py_NewRef(args[0]));
    while (result != NULL && Py_IS_TYPE(result, (PyTypeObject *)continuation_type)) {
        PyObject *answer = PyObject_CallOneArg(args[1], result);
        int must_end = answer != NULL ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        if (must_end == 0)
            break;
        if (must_end < 0)
            Py_CLEAR(result);
        else
            result = call_handed_over(result);
    }
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
    {"call_piece", (PyCFunction)(void (*)(void))py_call_piece, METH_FASTCALL,
     "call_piece(continuation, must_end) -> its result, or the continuation of which must_end(it) is false"},
    {"set_callback", py_set_callback, METH_O,
     "set_callback(callback or None) -> the earlier one.  A thread must not end with one set: prefer `call`."},
    {"skip", py_skip, METH_O, "skip(code): never ask for this code"},
    {"reset", py_reset, METH_O, "reset(code): forget its entries, and that it is to be skipped"},
    {"entries", py_entries, METH_O, "entries(code) -> [(guard, code), ...], most recent hit first"},
    {"invalidate", py_invalidate, METH_VARARGS, "invalidate(code, guard) -> bool: remove the entry of this guard"},
    {"set_always_call", py_set_always_call, METH_O,
     "set_always_call(flag): run every replacement by call, never by morph (tests of the fallback use it)"},
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
