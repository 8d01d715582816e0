/* What CPython keeps to itself and the frame hook needs: the parts of a frame, how one is discarded, the C stack.
 *
 * Goes in: a frame of CPython 3.11, 3.12 or 3.13.  Comes out: the same names for all of them.
 *
 * Mirrors torch/csrc/dynamo/cpython_defs.c.  Taught in chapter 01. */
#pragma once
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

/* ---- C stack -------------------------------------------------------------------------------------------------
 * With a custom eval function each Python call nests C calls.  3.11 does not count those, so a large recursion limit
 * overflows the C stack; 3.12 and 3.13 count 2 units a call against a small limit, so that plain recursion fails at
 * depth 750.  So we compare the stack's address with its bounds ourselves, and give the units back. */
static _Thread_local char *tls_stack_low;    /* lowest address of the C stack, NULL = unknown */
static _Thread_local int tls_stack_known;
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

static inline int
stack_is_short(void) /* unsigned: false on a foreign stack (fibers) and while tls_stack_low is NULL */
{
    return (size_t)((char *)__builtin_frame_address(0) - tls_stack_low) < STACK_RESERVE;
}
