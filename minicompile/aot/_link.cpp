/* A node of autograd's graph between a result of a compiled region and the node of the region.
 *
 * Goes in: link(gradients, number, result, before, below).  result: a tensor that the region's node made, and that was
 * computed from others which the user has as well: before: those on the way, with none of them in between; below: the
 * others behind these.  It is changed in place: its gradient function is a Link, which leads to the region's node and to
 * `before`.
 *
 * The region's backward computes all gradients at once, and the gradients of `before` are inside it.  So a Link gives
 * them nothing, as long as nobody looks at a gradient there: no hook, no retain_grad, no `torch.autograd.grad`.  If
 * somebody does it calls `gradients(node of the region, number, gradient of the result)`, which gives those of `before`.
 *
 * Mirrors nothing in PyTorch, where the results of a compiled region know nothing of each other.  Taught in chapter 08. */
#include <torch/csrc/python_headers.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

using namespace torch::autograd;

static bool
is_hooked(const Edge &edge)
{
    Node *node = edge.function.get();
    if (!node->pre_hooks().empty() || !node->post_hooks().empty()
            || node->retains_grad_hooks().count(edge.input_nr) > 0)
        return true;
    for (const auto &hook : node->tensor_pre_hooks()) {
        const FunctionPreHook &some = *hook;
        if (strcmp(typeid(some).name(), "N5torch8autograd23PyFunctionTensorPreHookE") != 0) /* no dynamic_cast: it is hidden */
            return true;
        auto *of_python = static_cast<const PyFunctionTensorPreHook *>(hook.get());
        pybind11::gil_scoped_acquire gil;
        if (of_python->value_idx == edge.input_nr && PyDict_Size(of_python->dict) > 0)
            return true;
    }
    return false;
}

static bool
is_asked_for(const Edge &edge)
{
    const auto *plan = get_current_graph_task_exec_info(); /* what `autograd.grad` wants; empty for `backward()` */
    auto found = plan->find(edge.function.get());
    if (found == plan->end() || found->second.captures_ == nullptr)
        return false;
    for (const auto &capture : *found->second.captures_)
        if (capture.input_idx_ == (int)edge.input_nr)
            return true;
    return false;
}

struct Link : public Node {
    PyObject *gradients;
    long number;
    edge_list below; /* and `before`, which the next edges begin with behind the first */

    Link(PyObject *gradients, long number) : gradients(Py_NewRef(gradients)), number(number) {}

    ~Link() override
    {
        if (Py_IsInitialized()) {
            pybind11::gil_scoped_acquire gil;
            Py_DECREF(gradients);
        }
    }

    std::string name() const override { return "LinkBackward"; }

    variable_list apply(variable_list &&given) override
    {
        variable_list passed(num_outputs());
        if (given[0].defined()) {
            passed[0] = given[0];
            for (const Edge &edge : below)
                if (is_hooked(edge) || is_asked_for(edge)) {
                    compute(passed);
                    break;
                }
        }
        return passed;
    }

    void compute(variable_list &passed)
    {
        pybind11::gil_scoped_acquire gil;
        THPObjectPtr node(functionToPyObject(next_edge(0).function)), gradient(THPVariable_Wrap(passed[0]));
        THPObjectPtr found(PyObject_CallFunction(gradients, "OlO", node.get(), number, gradient.get()));
        if (found && (!PyTuple_Check(found.get()) || PyTuple_GET_SIZE(found.get()) != (Py_ssize_t)passed.size() - 1))
            PyErr_SetString(PyExc_TypeError, "a gradient for each tensor before the result, please");
        if (PyErr_Occurred()) {
            python_error error;
            error.persist();
            throw std::move(error);
        }
        for (size_t i = 1; i < passed.size(); i++) {
            PyObject *value = PyTuple_GET_ITEM(found.get(), i - 1);
            if (value != Py_None)
                passed[i] = THPVariable_Unpack(value);
        }
    }
};

static PyObject *
py_link(PyObject *module, PyObject *args)
{
    PyObject *gradients, *result, *before, *below;
    long number;
    if (!PyArg_ParseTuple(args, "OlOO!O!", &gradients, &number, &result, &PyTuple_Type, &before, &PyTuple_Type, &below))
        return NULL;
    HANDLE_TH_ERRORS
#if __has_include(<torch/csrc/autograd/node.h>)
    auto link = c10::make_intrusive<Link>(gradients, number);
#else
    std::shared_ptr<Link> link(new Link(gradients, number), deleteNode);
#endif
    const at::Tensor &tensor = THPVariable_Unpack(result);
    edge_list next = {impl::gradient_edge(tensor)};
    for (PyObject *group : {before, below})
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(group); i++) {
            Edge edge = impl::gradient_edge(THPVariable_Unpack(PyTuple_GET_ITEM(group, i)));
            link->below.push_back(edge);
            if (group == before)
                next.push_back(edge);
        }
    link->set_next_edges(std::move(next));
    link->add_input_metadata(tensor);
    impl::set_gradient_edge(tensor, Edge(link, 0));
    Py_RETURN_NONE;
    END_HANDLE_TH_ERRORS
}

static PyMethodDef methods[] = {
    {"link", py_link, METH_VARARGS, "link(gradients, number, result, before, below)"}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_link", "Links results; see the head of _link.cpp.", -1,
                                        methods};

PyMODINIT_FUNC
PyInit__link(void)
{
    return PyModule_Create(&definition);
}
