/* The guard check of a compiled frame: a straight-line program that reads values and compares them.
 *
 * Goes in: Program(steps, constants, n_arguments, n_registers); steps are tuples (operation, source, target, operand,
 *     registers).  Registers hold, in this order: what the frame hook gives (the function, its arguments), the constants,
 *     and what the reading steps find.
 * Comes out: a callable, `program(function, *arguments) -> bool`.  A value that cannot be read makes it False.
 *
 * What is asked often of a module tree (attributes, items, classes, identity, small constants) is done here; the rest
 * are ASK steps, which call a Python function.  guard_program.py writes the steps.
 *
 * Mirrors torch/csrc/dynamo/guards.cpp.  Taught in chapter 04. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

enum { ATTRIBUTE, ITEM, CALL, TYPE, IS, EQUALS, LENGTH, HAS_KEY, LACKS_KEY, LACKS_ATTRIBUTE, PLAIN_CALL, ASK };

typedef struct {
    int operation, source, target;
    PyObject *operand;       /* strong */
    Py_ssize_t n, *registers; /* what CALL and ASK pass on */
} Step;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *constants, *guards; /* guards: the GuardFunction that this belongs to, set from Python */
    Step *steps;
    Py_ssize_t n_steps, n_arguments, n_registers;
} Program;

static PyObject *hook_names[4], *forward_name;

static PyObject * /* new reference */
item(PyObject *container, PyObject *key)
{
    if (PyDict_CheckExact(container)) {
        PyObject *found = PyDict_GetItemWithError(container, key);
        if (found == NULL && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, key);
        return Py_XNewRef(found);
    }
    return PyObject_GetItem(container, key);
}

static PyObject * /* new reference */
call(Step *step, PyObject **registers)
{
    PyObject *few[8] = {NULL}, **arguments = step->n <= 8 ? few : PyMem_New(PyObject *, step->n);
    if (arguments == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < step->n; i++)
        arguments[i] = registers[step->registers[i]];
    PyObject *result = PyObject_Vectorcall(step->operand, arguments, step->n, NULL);
    if (arguments != few)
        PyMem_Free(arguments);
    return result;
}

static int /* 1, 0, or -1 with an exception, as all that answer a question here */
equals(PyObject *value, PyObject *expected)
{
    if (value == expected)
        return 1;
    return Py_IS_TYPE(value, Py_TYPE(expected)) ? PyObject_RichCompareBool(value, expected, Py_EQ) : 0;
}

static int
lacks_attribute(PyObject *object, PyObject *name)
{
    PyObject *attributes = PyObject_GenericGetDict(object, NULL);
    int found = attributes == NULL ? -1 : PyDict_Contains(attributes, name);
    Py_XDECREF(attributes);
    return found < 0 ? -1 : !found;
}

static int /* no hooks of its own, no forward of its own */
plain_call(PyObject *module)
{
    PyObject *attributes = PyObject_GenericGetDict(module, NULL);
    int answer = attributes == NULL ? -1 : 1;
    for (int i = 0; i < 4 && answer == 1; i++) {
        PyObject *hooks = PyDict_GetItemWithError(attributes, hook_names[i]);
        answer = hooks == NULL ? (PyErr_Occurred() ? -1 : 0) : PyObject_Not(hooks);
    }
    if (answer == 1) {
        int found = PyDict_Contains(attributes, forward_name);
        answer = found < 0 ? -1 : !found;
    }
    Py_XDECREF(attributes);
    return answer;
}

static int
ask(Step *step, PyObject **registers)
{
    PyObject *answer = call(step, registers);
    int truth = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return truth;
}

static int
read_value(Step *step, PyObject **registers)
{
    PyObject *source = registers[step->source], *found;
    if (step->operation == ATTRIBUTE)
        found = PyObject_GetAttr(source, step->operand);
    else if (step->operation == ITEM)
        found = item(source, step->operand);
    else
        found = call(step, registers);
    registers[step->target] = found;
    return found != NULL ? 1 : -1;
}

static int
run_step(Step *step, PyObject **registers)
{
    PyObject *value = registers[step->source], *operand = step->operand;
    int found;
    Py_ssize_t length;
    switch (step->operation) {
    case TYPE:
        return (PyObject *)Py_TYPE(value) == operand;
    case IS:
        return value == operand;
    case EQUALS:
        return equals(value, operand);
    case LENGTH:
        length = PyObject_Size(value);
        return length < 0 ? -1 : length == PyLong_AsSsize_t(operand);
    case HAS_KEY:
        return PySequence_Contains(value, operand);
    case LACKS_KEY:
        found = PySequence_Contains(value, operand);
        return found < 0 ? -1 : !found;
    case LACKS_ATTRIBUTE:
        return lacks_attribute(value, operand);
    case PLAIN_CALL:
        return plain_call(value);
    case ASK:
        return ask(step, registers);
    default:
        return read_value(step, registers);
    }
}

static PyObject *
run(PyObject *self, PyObject *const *arguments, size_t nargsf, PyObject *kwnames)
{
    Program *p = (Program *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_constants = PyTuple_GET_SIZE(p->constants);
    if (n != p->n_arguments || kwnames != NULL)
        return PyErr_Format(PyExc_TypeError, "the guard takes %zd arguments", p->n_arguments);
    PyObject *few[64], **registers = p->n_registers <= 64 ? few : PyMem_New(PyObject *, p->n_registers);
    if (registers == NULL)
        return PyErr_NoMemory();
    memcpy(registers, arguments, n * sizeof(PyObject *));
    memcpy(registers + n, &PyTuple_GET_ITEM(p->constants, 0), n_constants * sizeof(PyObject *));
    memset(registers + n + n_constants, 0, (p->n_registers - n - n_constants) * sizeof(PyObject *));
    int holds = 1;
    for (Py_ssize_t i = 0; i < p->n_steps && holds == 1; i++)
        holds = run_step(p->steps + i, registers);
    for (Py_ssize_t i = n + n_constants; i < p->n_registers; i++)
        Py_XDECREF(registers[i]);
    if (registers != few)
        PyMem_Free(registers);
    if (holds < 0) { /* what the user's program would meet when it reads the value itself */
        PyObject *expected[] = {PyExc_AttributeError, PyExc_LookupError, PyExc_TypeError, PyExc_ValueError};
        for (int i = 0; i < 4; i++)
            if (PyErr_ExceptionMatches(expected[i])) {
                PyErr_Clear();
                Py_RETURN_FALSE;
            }
        return NULL;
    }
    return PyBool_FromLong(holds);
}

static int
set_step(Step *step, PyObject *description)
{
    PyObject *list;
    if (!PyArg_ParseTuple(description, "iiiOO!", &step->operation, &step->source, &step->target, &step->operand,
                          &PyTuple_Type, &list)) {
        step->operand = NULL;
        return -1;
    }
    Py_INCREF(step->operand);
    step->n = PyTuple_GET_SIZE(list);
    step->registers = PyMem_New(Py_ssize_t, step->n + 1);
    if (step->registers == NULL)
        return PyErr_NoMemory() == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; i < step->n; i++)
        step->registers[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(list, i));
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *
program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *steps, *constants;
    Py_ssize_t n_arguments, n_registers;
    if (!PyArg_ParseTuple(args, "O!O!nn", &PyList_Type, &steps, &PyTuple_Type, &constants, &n_arguments, &n_registers))
        return NULL;
    Program *self = (Program *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = run;
    self->constants = Py_NewRef(constants);
    self->n_arguments = n_arguments;
    self->n_registers = n_registers;
    self->n_steps = PyList_GET_SIZE(steps);
    self->steps = PyMem_Calloc(self->n_steps + 1, sizeof(Step));
    int failed = self->steps == NULL;
    for (Py_ssize_t i = 0; i < self->n_steps && !failed; i++)
        failed = set_step(self->steps + i, PyList_GET_ITEM(steps, i)) < 0;
    if (failed) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
program_traverse(Program *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->constants);
    Py_VISIT(self->guards);
    for (Py_ssize_t i = 0; self->steps != NULL && i < self->n_steps; i++)
        Py_VISIT(self->steps[i].operand);
    return 0;
}

static int
program_clear(Program *self)
{
    Step *steps = self->steps;
    self->steps = NULL;
    for (Py_ssize_t i = 0; steps != NULL && i < self->n_steps; i++) {
        Py_XDECREF(steps[i].operand);
        PyMem_Free(steps[i].registers);
    }
    self->n_steps = 0;
    PyMem_Free(steps);
    Py_CLEAR(self->guards);
    return 0;
}

static void
program_dealloc(Program *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    program_clear(self);
    Py_CLEAR(self->constants);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"guards", T_OBJECT, offsetof(Program, guards), 0, "the GuardFunction that this is the check of"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Program, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, program_new},           {Py_tp_dealloc, program_dealloc},
                              {Py_tp_traverse, program_traverse}, {Py_tp_clear, program_clear},
                              {Py_tp_members, members},           {Py_tp_call, PyVectorcall_Call},
                              {0, NULL}};

static PyType_Spec spec = {"minicompile.dynamo._guards.Program", sizeof(Program), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_guards", "Guard checks; see the head of _guards.c.", -1,
                                        NULL};

PyMODINIT_FUNC
PyInit__guards(void)
{
    const char *names[] = {"_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"};
    for (int i = 0; i < 4; i++)
        hook_names[i] = PyUnicode_InternFromString(names[i]);
    forward_name = PyUnicode_InternFromString("forward");
    const char *operations[] = {"ATTRIBUTE", "ITEM",      "CALL",            "TYPE",       "IS",  "EQUALS", "LENGTH",
                                "HAS_KEY",   "LACKS_KEY", "LACKS_ATTRIBUTE", "PLAIN_CALL", "ASK"};
    PyObject *type = PyType_FromSpec(&spec), *module = type != NULL ? PyModule_Create(&definition) : NULL;
    if (module == NULL || PyModule_AddObjectRef(module, "Program", type) < 0)
        return NULL;
    for (int i = 0; i < (int)(sizeof(operations) / sizeof(operations[0])); i++)
        if (PyModule_AddIntConstant(module, operations[i], i) < 0)
            return NULL;
    return module;
}
