/* What autograd knows of a compiled region that Python is not told, or not cheaply.
 *
 * watch(tensors, later) remembers how often each was written: its version, which no view or alias can hide.  later: how
 * many more writes are expected.  Comes out: a `Watch`; `watch.written()` lists (number, version, expected version) of
 * those that were written besides.  It holds the counters, not the tensors.
 * asked() is called in the backward of a node: which of its gradients are wanted, by number; None: all of them.
 * unpack(node, numbers) gives only these of the tensors that the node has saved: only they must not have been written.
 *
 * Mirrors SavedVariable of torch/csrc/autograd/saved_variable.cpp, which keeps what it counts.  Taught in chapter 08. */
#include <torch/csrc/python_headers.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

using namespace torch::autograd;

/* --- versions ------------------------------------------------------------------------------------- */
struct Counter {
    c10::VariableVersion counter;
    long expected;
};

struct Watch {
    PyObject_HEAD
    std::vector<Counter> counters;
};

static void
watch_dealloc(PyObject *self)
{
    ((Watch *)self)->counters.~vector();
    Py_TYPE(self)->tp_free(self);
}

static PyObject *
watch_written(PyObject *self, PyObject *)
{
    THPObjectPtr found(PyList_New(0));
    const auto &counters = ((Watch *)self)->counters;
    for (size_t i = 0; found && i < counters.size(); i++) {
        long version = counters[i].counter.current_version(), expected = counters[i].expected;
        if (version == expected)
            continue;
        THPObjectPtr entry(Py_BuildValue("nll", (Py_ssize_t)i, version, expected));
        if (!entry || PyList_Append(found.get(), entry.get()) < 0)
            return NULL;
    }
    return found.release();
}

static PyMethodDef watch_methods[] = {{"written", watch_written, METH_NOARGS, "[(number, version, expected version)]"},
                                      {NULL, NULL, 0, NULL}};

static PyTypeObject WatchType = {PyVarObject_HEAD_INIT(NULL, 0)};

static PyObject *
py_watch(PyObject *module, PyObject *args)
{
    PyObject *tensors, *later;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &tensors, &PyTuple_Type, &later))
        return NULL;
    HANDLE_TH_ERRORS
    Py_ssize_t n = PyList_GET_SIZE(tensors);
    TORCH_CHECK(PyTuple_GET_SIZE(later) == n, "a number for each tensor, please");
    Watch *made = PyObject_New(Watch, &WatchType);
    if (made == NULL)
        return NULL;
    new (&made->counters) std::vector<Counter>();
    THPObjectPtr holder((PyObject *)made);
    made->counters.reserve(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        const at::Tensor &tensor = THPVariable_Unpack(PyList_GET_ITEM(tensors, i));
        if (tensor.is_inference())
            SavedVariable(tensor, false); /* raises what eager raises */
        const c10::VariableVersion &counter = impl::version_counter(tensor);
        made->counters.push_back({counter, (long)counter.current_version() + PyLong_AsLong(PyTuple_GET_ITEM(later, i))});
    }
    return holder.release();
    END_HANDLE_TH_ERRORS
}

/* --- the backward that is running ------------------------------------------------------------------- */
static PyObject *
py_asked(PyObject *module, PyObject *)
{
    HANDLE_TH_ERRORS
    const auto *plan = get_current_graph_task_exec_info(); /* empty: `backward()`, which wants all */
    auto node = get_current_node();
    if (plan == nullptr || plan->empty() || !node)
        Py_RETURN_NONE;
    THPObjectPtr wanted(PyList_New(0));
    bool all = true;
    for (size_t i = 0; i < node->num_outputs(); i++) {
        if (!node->task_should_compute_output(i)) {
            all = all && !node->should_compute_output(i);
            continue;
        }
        THPObjectPtr number(PyLong_FromSize_t(i));
        if (!wanted || !number || PyList_Append(wanted.get(), number.get()) < 0)
            return NULL;
    }
    if (all)
        Py_RETURN_NONE;
    return wanted.release();
    END_HANDLE_TH_ERRORS
}

static PyObject *
py_unpack(PyObject *module, PyObject *args)
{
    PyObject *node, *numbers;
    if (!PyArg_ParseTuple(args, "OO!", &node, &PyList_Type, &numbers))
        return NULL;
    HANDLE_TH_ERRORS
    TORCH_CHECK_TYPE(THPFunction_Check(node), "a node of a Python function, please");
    auto *function = (THPFunction *)node;
    TORCH_CHECK(!function->has_freed_buffers, ERR_BACKWARD_TWICE);
    Py_ssize_t n = PyList_GET_SIZE(numbers);
    THPObjectPtr found(PyList_New(n));
    for (Py_ssize_t i = 0; found && i < n; i++) {
        size_t number = PyLong_AsSize_t(PyList_GET_ITEM(numbers, i));
        TORCH_CHECK_INDEX(number < function->saved_variables.size(), "it has not saved that many tensors");
        PyObject *tensor = THPVariable_Wrap(function->saved_variables[number].unpack(get_current_node()));
        if (tensor == NULL)
            return NULL;
        PyList_SET_ITEM(found.get(), i, tensor);
    }
    return found.release();
    END_HANDLE_TH_ERRORS
}

static PyMethodDef methods[] = {
    {"watch", py_watch, METH_VARARGS, "watch([tensors], (number of writes that are expected of each)) -> Watch"},
    {"asked", py_asked, METH_NOARGS, "asked() -> [number of a gradient of the running node that is wanted], or None"},
    {"unpack", py_unpack, METH_VARARGS, "unpack(node, [number]) -> [saved tensor]"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_saved", "Saved tensors; see the head of _saved.cpp.", -1,
                                        methods};

PyMODINIT_FUNC
PyInit__saved(void)
{
    WatchType.tp_name = "minicompile.aot._saved.Watch";
    WatchType.tp_basicsize = sizeof(Watch);
    WatchType.tp_flags = Py_TPFLAGS_DEFAULT;
    WatchType.tp_doc = "How often tensors were written; made by `watch`.";
    WatchType.tp_methods = watch_methods;
    WatchType.tp_dealloc = watch_dealloc;
    if (PyType_Ready(&WatchType) < 0)
        return NULL;
    return PyModule_Create(&definition);
}
