/* Calling a run of C++ kernels: from Python tensors and sizes to the addresses and numbers that `run_0(void** p)` takes.
 *
 * Goes in: Launcher(address of the function, number of tensors, number of sizes, on_error).
 * Comes out: a callable, `launcher(*tensors, *sizes)`.  on_error(flags) is called where a kernel reports an error.
 * Also `size(tensor, dimension)` and `stride(tensor, dimension)`: x.size(0) and x.stride(0) in half the time.
 *
 * Mirrors the C++ wrapper of torch/_inductor/codegen/cpp_wrapper_cpu.py.  Taught in chapter 11. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <c10/util/SmallVector.h>
#include "../../_tensors.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    int (*function)(void **);
    Py_ssize_t n_tensors, n_sizes;
    PyObject *on_error;
} Launcher;

static bool
add_argument(PyObject *value, bool is_tensor, c10::SmallVector<void *, 32> &arguments)
{
    if (!is_tensor)
        arguments.push_back((void *)(intptr_t)PyLong_AsLongLong(value));
    else if (PyObject_TypeCheck(value, tensor_type))
        arguments.push_back(implementation_of(value)->mutable_data());
    else
        PyErr_Format(PyExc_TypeError, "a kernel takes tensors, not %.100s", Py_TYPE(value)->tp_name);
    return !PyErr_Occurred();
}

static PyObject *
launch(PyObject *self, PyObject *const *values, size_t nargsf, PyObject *kwnames)
{
    Launcher *launcher = (Launcher *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (n != launcher->n_tensors + launcher->n_sizes || kwnames != NULL)
        return PyErr_Format(PyExc_TypeError, "it takes %zd tensors and %zd sizes", launcher->n_tensors,
                            launcher->n_sizes);
    c10::SmallVector<void *, 32> arguments;
    try {
        for (Py_ssize_t i = 0; i < n; i++)
            if (!add_argument(values[i], i < launcher->n_tensors, arguments))
                return NULL;
    } catch (const std::exception &error) { /* a tensor without memory of its own */
        return PyErr_Format(PyExc_RuntimeError, "%s", error.what());
    }
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = launcher->function(arguments.data());
    Py_END_ALLOW_THREADS
    return error ? PyObject_CallFunction(launcher->on_error, "i", error) : Py_NewRef(Py_None);
}

static PyObject *
launcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned long long address;
    Py_ssize_t n_tensors, n_sizes;
    PyObject *on_error;
    if (!PyArg_ParseTuple(args, "KnnO", &address, &n_tensors, &n_sizes, &on_error))
        return NULL;
    Launcher *self = (Launcher *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = launch;
    self->function = (int (*)(void **))(intptr_t)address;
    self->n_tensors = n_tensors;
    self->n_sizes = n_sizes;
    self->on_error = Py_NewRef(on_error);
    return (PyObject *)self;
}

static void
launcher_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(((Launcher *)self)->on_error);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, vectorcall), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void *)launcher_new},
                              {Py_tp_dealloc, (void *)launcher_dealloc},
                              {Py_tp_members, members},
                              {Py_tp_call, (void *)PyVectorcall_Call},
                              {0, NULL}};

static PyType_Spec spec = {"minicompile.inductor.codegen._launch.Launcher", sizeof(Launcher), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};

/* ---- sizes ------------------------------------------------------------------------------------------------------- */
static PyObject *
number_of(bool stride, PyObject *const *values, Py_ssize_t n)
{
    Py_ssize_t dimension = n == 2 ? PyLong_AsSsize_t(values[1]) : -1;
    if (n != 2 || !PyObject_TypeCheck(values[0], tensor_type) || dimension < 0
            || dimension >= implementation_of(values[0])->dim())
        return PyErr_Format(PyExc_TypeError, "a tensor and one of its dimensions, please");
    c10::TensorImpl *tensor = implementation_of(values[0]);
    return PyLong_FromLongLong((stride ? tensor->strides() : tensor->sizes())[dimension]);
}

static PyObject *
py_size(PyObject *module, PyObject *const *values, Py_ssize_t n)
{
    return number_of(false, values, n);
}

static PyObject *
py_stride(PyObject *module, PyObject *const *values, Py_ssize_t n)
{
    return number_of(true, values, n);
}

static PyMethodDef methods[] = {
    {"size", (PyCFunction)(void (*)(void))py_size, METH_FASTCALL, "size(tensor, dimension)"},
    {"stride", (PyCFunction)(void (*)(void))py_stride, METH_FASTCALL, "stride(tensor, dimension)"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_launch", "Calls kernels; see the head of _launch.cpp.",
                                        -1, methods};

PyMODINIT_FUNC
PyInit__launch(void)
{
    if (find_torch() < 0)
        return NULL;
    PyObject *type = PyType_FromSpec(&spec), *module = type != NULL ? PyModule_Create(&definition) : NULL;
    if (module != NULL && PyModule_AddObject(module, "Launcher", type) < 0)
        return NULL;
    return module;
}
