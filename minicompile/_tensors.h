/* From a Python tensor to PyTorch's own structure, without a call into Python.
 *
 * Goes in: a torch.Tensor.  Comes out: its TensorImpl, which has sizes, strides and the address of the data.
 * The guards of dynamo and the launcher of inductor read it.  Mirrors THPVariable_Unpack of
 * torch/csrc/autograd/python_variable.h.  Taught in chapter 04. */
#pragma once
#include <Python.h>
#include <c10/core/TensorImpl.h>
#include <torch/headeronly/version.h>

static Py_ssize_t implementation_offset; /* of the TensorImpl's address in a Python tensor: it differs between versions */

static inline c10::TensorImpl *
implementation_of(PyObject *tensor)
{
    return *(c10::TensorImpl **)((char *)tensor + implementation_offset);
}

static PyTypeObject *tensor_type;           /* torch.Tensor */

static int
find_implementation(PyObject *tensor)
{
    PyObject *address = PyObject_GetAttrString(tensor, "_cdata");
    void *implementation = address != NULL ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    if (PyErr_Occurred())
        return -1;
    for (Py_ssize_t offset = sizeof(PyObject); offset < Py_TYPE(tensor)->tp_basicsize; offset += sizeof(void *))
        if (*(void **)((char *)tensor + offset) == implementation) {
            implementation_offset = offset;
            return 0;
        }
    PyErr_SetString(PyExc_ImportError, "minicompile does not know where this PyTorch keeps a tensor's properties");
    return -1;
}

static int
same_version(PyObject *torch)
{
    PyObject *version = PyObject_GetAttrString(torch, "__version__");
    const char *text = version != NULL ? PyUnicode_AsUTF8(version) : NULL;
    int major, minor;
    if (text != NULL && (sscanf(text, "%d.%d", &major, &minor) != 2 || major != TORCH_VERSION_MAJOR
                         || minor != TORCH_VERSION_MINOR))
        PyErr_Format(PyExc_ImportError, "minicompile was built with PyTorch %d.%d and this is %s: run `make setup`, or "
                     "`pip install -e .`, again", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, text);
    Py_XDECREF(version);
    return PyErr_Occurred() ? -1 : 0;
}

static int
find_torch(void)
{
    PyObject *torch = PyImport_ImportModule("torch"), *tensor = NULL;
    if (torch != NULL && same_version(torch) == 0) {
        tensor_type = (PyTypeObject *)PyObject_GetAttrString(torch, "Tensor"); /* for ever */
        tensor = PyObject_CallMethod(torch, "empty", "i", 0);
    }
    int found = tensor_type != NULL && tensor != NULL ? find_implementation(tensor) : -1;
    Py_XDECREF(tensor);
    Py_XDECREF(torch);
    return found;
}
