/* What a guard asks PyTorch: the properties of a tensor, and the modes that change what an operator does.
 *
 * Goes in: what capture noted (`tensor_properties` and `ambient_state` of guard_checks.py).
 * Comes out: whether it still holds, read from PyTorch's own structures: no Python runs, no tensor is made.
 *
 * Mirrors torch/csrc/dynamo/guards.cpp.  Taught in chapter 04. */
#pragma once
#include <Python.h>
#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/forward_grad.h>
#include "../_tensors.h"

namespace at::autocast { /* ATen/autocast_mode.h includes all operators, which takes half a minute to compile */
TORCH_API bool is_autocast_enabled(at::DeviceType);
TORCH_API at::ScalarType get_autocast_dtype(at::DeviceType);
TORCH_API bool is_autocast_cache_enabled();
}
namespace torch {
TORCH_PYTHON_API THPDtype *getTHPDtype(at::ScalarType);
}

/* ---- tensors ------------------------------------------------------------------------------------------------ */
enum : int64_t { ANY = INT64_MIN }; /* a symbolic size, about which there are guards of its own */

using Numbers = c10::SmallVector<int64_t, 5>;

struct TensorFacts {
    PyTypeObject *type;
    uint64_t keys;
    caffe2::TypeMeta dtype;
    c10::Device device = c10::kCPU;
    bool requires_grad, has_strides;
    Numbers sizes, strides;
};

static inline bool
same_numbers(c10::IntArrayRef numbers, const Numbers &expected)
{
    if (numbers.size() != expected.size())
        return false;
    for (size_t i = 0; i < expected.size(); i++)
        if (numbers[i] != expected[i] && expected[i] != ANY)
            return false;
    return true;
}

static inline bool /* equal keys come first: only then is it certain that sizes and strides are plain numbers */
tensor_matches(const TensorFacts &facts, PyObject *value)
{
    if (Py_TYPE(value) != facts.type)
        return false;
    c10::TensorImpl *tensor = implementation_of(value);
    return tensor->key_set().raw_repr() == facts.keys && same_numbers(tensor->sizes(), facts.sizes)
        && tensor->dtype() == facts.dtype && tensor->requires_grad() == facts.requires_grad
        && (!facts.has_strides || same_numbers(tensor->strides(), facts.strides)) && tensor->device() == facts.device;
}

static int
read_numbers(PyObject *tuple, Numbers &numbers)
{
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "sizes and strides are tuples");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *number = PyTuple_GET_ITEM(tuple, i);
        numbers.push_back(number == Py_None ? ANY : PyLong_AsLongLong(number));
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int /* from what tensor_properties() returns */
read_tensor_facts(PyObject *properties, TensorFacts &facts)
{
    PyObject *dtype, *sizes, *strides, *device;
    int requires_grad;
    unsigned long long keys;
    if (!PyArg_ParseTuple(properties, "O!O!O!OpKO!", &PyType_Type, &facts.type, &THPDtypeType, &dtype, &PyTuple_Type,
                          &sizes, &strides, &requires_grad, &keys, &THPDeviceType, &device))
        return -1;
    facts.dtype = caffe2::TypeMeta::fromScalarType(((THPDtype *)dtype)->scalar_type);
    facts.device = ((THPDevice *)device)->device;
    facts.requires_grad = requires_grad;
    facts.keys = keys;
    facts.has_strides = strides != Py_None;
    if (read_numbers(sizes, facts.sizes) < 0)
        return -1;
    return facts.has_strides ? read_numbers(strides, facts.strides) : 0;
}

/* ---- modes -------------------------------------------------------------------------------------------------- */
enum Shown { TRUTH, NUMBER, DTYPE };

struct Mode {
    const char *name;
    Shown shown;
    int64_t (*read)();
};

static inline at::Float32Precision
matrix_precision()
{
    return at::globalContext().float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL);
}

static const Mode MODES[] = {
    {"torch.is_grad_enabled()", TRUTH, [] { return (int64_t)c10::GradMode::is_enabled(); }},
    {"torch.is_inference_mode_enabled()", TRUTH, [] { return (int64_t)c10::InferenceMode::is_enabled(); }},
    {"torch.get_default_dtype()", DTYPE, [] { return (int64_t)c10::get_default_dtype_as_scalartype(); }},
    {"torch.is_autocast_enabled('cpu')", TRUTH, [] { return (int64_t)at::autocast::is_autocast_enabled(c10::kCPU); }},
    {"torch.is_autocast_enabled('cuda')", TRUTH, [] { return (int64_t)at::autocast::is_autocast_enabled(c10::kCUDA); }},
    {"torch.get_autocast_dtype('cpu')", DTYPE, [] { return (int64_t)at::autocast::get_autocast_dtype(c10::kCPU); }},
    {"torch.get_autocast_dtype('cuda')", DTYPE, [] { return (int64_t)at::autocast::get_autocast_dtype(c10::kCUDA); }},
    {"torch.is_autocast_cache_enabled()", TRUTH, [] { return (int64_t)at::autocast::is_autocast_cache_enabled(); }},
    {"torch.are_deterministic_algorithms_enabled()", TRUTH,
     [] { return (int64_t)at::globalContext().deterministicAlgorithms(); }},
    {"TF32 in matrix products of CUDA", TRUTH, [] { return (int64_t)(matrix_precision() == at::Float32Precision::TF32); }},
    {"number of torch function modes", NUMBER, [] { return at::impl::PythonTorchFunctionTLS::stack_len(); }},
    {"number of torch dispatch modes", NUMBER, [] { return c10::impl::TorchDispatchModeTLS::stack_len(); }},
    {"state of torch functions", NUMBER,
     [] { return (int64_t)at::impl::PythonTorchFunctionTLS::get_disabled_state(); }},
    {"torch.autograd.forward_ad is in use", TRUTH,
     [] { return (int64_t)(torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr); }},
};
enum { N_MODES = sizeof(MODES) / sizeof(MODES[0]) };

static PyObject *
py_ambient_state(PyObject *module, PyObject *ignored)
{
    PyObject *state = PyTuple_New(N_MODES);
    for (int i = 0; state != NULL && i < N_MODES; i++) {
        int64_t value = MODES[i].read();
        PyObject *shown = MODES[i].shown == DTYPE ? Py_NewRef((PyObject *)torch::getTHPDtype((at::ScalarType)value))
                        : MODES[i].shown == TRUTH ? PyBool_FromLong(value)
                                                  : PyLong_FromLongLong(value);
        if (shown == NULL)
            Py_CLEAR(state);
        else
            PyTuple_SET_ITEM(state, i, shown);
    }
    return state;
}

static PyObject *
ambient_names(void)
{
    PyObject *names = PyTuple_New(N_MODES);
    for (int i = 0; names != NULL && i < N_MODES; i++)
        PyTuple_SET_ITEM(names, i, PyUnicode_FromString(MODES[i].name));
    return names;
}

struct Modes {
    int64_t expected[N_MODES];
};

static int /* from what ambient_state() returned */
read_modes(PyObject *state, Modes &modes)
{
    if (PyTuple_GET_SIZE(state) != N_MODES) {
        PyErr_SetString(PyExc_ValueError, "not what ambient_state() returns");
        return -1;
    }
    for (int i = 0; i < N_MODES; i++) {
        PyObject *value = PyTuple_GET_ITEM(state, i);
        bool is_dtype = MODES[i].shown == DTYPE && THPDtype_Check(value);
        modes.expected[i] = is_dtype ? (int64_t)((THPDtype *)value)->scalar_type : PyLong_AsLongLong(value);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static inline bool
modes_match(const Modes &modes)
{
    for (int i = 0; i < N_MODES; i++)
        if (MODES[i].read() != modes.expected[i])
            return false;
    return true;
}
