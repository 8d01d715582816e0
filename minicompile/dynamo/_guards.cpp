/* The guard check of a compiled frame: a straight-line program that reads values and compares them.
 *
 * Goes in: Program(ambient, steps, constants, n_arguments, n_registers); steps are tuples (operation, source, target,
 *     operand, registers).  Registers hold, in this order: what the frame hook gives (the function, its arguments), the
 *     constants, and what the reading steps find.  A value that many guards need is read once.
 * Comes out: a callable, `program(function, *arguments) -> bool`.  A value that cannot be read makes it False.
 *
 * The modes are asked first, then the steps in their order, up to the first that does not hold.  All that is asked often
 * is done here; the rest are ASK steps, which call a Python function.  guard_program.py writes the steps.
 *
 * Mirrors torch/csrc/dynamo/guards.cpp.  Taught in chapter 04. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <algorithm>
#include <cmath>
#include "_guard_steps.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *constants, *guards; /* guards: the GuardFunction that this belongs to, set from Python */
    Modes modes;
    std::vector<Step> *steps;
    Py_ssize_t n_arguments, n_registers;
} Program;

/* ---- steps: they answer 1, 0 or, with an exception, -1 -------------------------------------------------------- */
static PyObject * /* new reference */
call(const Step &step, PyObject **registers)
{
    c10::SmallVector<PyObject *, 8> arguments;
    for (int place : step.details->registers)
        arguments.push_back(registers[place]);
    return PyObject_Vectorcall(step.operand, arguments.data(), arguments.size(), NULL);
}

static int
ask(const Step &step, PyObject **registers)
{
    PyObject *answer = call(step, registers);
    int truth = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return truth;
}

static int
ask_about_numbers(const Step &step, PyObject **registers)
{
    const Details &details = *step.details;
    std::vector<PyObject *> numbers;
    for (size_t i = 0; i < details.registers.size() && !PyErr_Occurred(); i++) {
        PyObject *value = registers[details.registers[i]];
        int64_t size;
        int place = details.condition.places[i];
        numbers.push_back(place == VALUE_HERE ? Py_NewRef(value)
                          : number_at(value, place, size) ? PyLong_FromLongLong(size) : NULL);
        if (numbers.back() == NULL && !PyErr_Occurred())
            PyErr_SetString(PyExc_IndexError, "no such dimension");
    }
    PyObject *answer = PyErr_Occurred() ? NULL : PyObject_Vectorcall(step.operand, numbers.data(), numbers.size(), NULL);
    int truth = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    for (PyObject *number : numbers)
        Py_XDECREF(number);
    return truth;
}

static PyObject * /* new reference */
read_size(const Step &step, PyObject *value)
{
    if (!PyObject_TypeCheck(value, tensor_type)) {
        PyErr_SetString(PyExc_TypeError, "not a tensor");
        return NULL;
    }
    c10::TensorImpl *tensor = implementation_of(value);
    if (step.operation == STORAGE_OFFSET)
        return PyLong_FromLongLong(tensor->storage_offset());
    c10::IntArrayRef numbers = step.operation == SIZE ? tensor->sizes() : tensor->strides();
    if ((size_t)step.number < numbers.size())
        return PyLong_FromLongLong(numbers[step.number]);
    PyErr_SetString(PyExc_IndexError, "no such dimension");
    return NULL;
}

static int
read_value(Step &step, PyObject **registers)
{
    PyObject *value = registers[step.source], *found;
    switch (step.operation) {
    case ATTRIBUTE:
        found = read_attribute(value, &step.operand, &step.place);
        break;
    case FUNCTION_PART:
        found = PyFunction_Check(value) ? function_part(value, step.number)
                                        : read_attribute(value, &step.operand, &step.place);
        break;
    case ITEM:
        found = read_item(value, &step.operand, step.number, &step.place);
        break;
    case CLASS:
        found = Py_NewRef((PyObject *)Py_TYPE(value));
        break;
    case CALL:
        found = call(step, registers);
        break;
    default:
        found = read_size(step, value);
    }
    registers[step.target] = found;
    return found != NULL ? 1 : -1;
}

/* No two of these registers hold one object.  From call to call nearly all of them (a model's parameters) stay as they
 * are: addresses that differed from each other once are compared with the few new ones only. */
static bool
all_distinct(Details &details, PyObject **registers)
{
    enum { FEW = 8 };
    std::vector<PyObject *> &known = details.distinct;
    const std::vector<int> &places = details.registers;
    size_t n = places.size(), changed[FEW], n_changed = 0;
    for (size_t i = 0; i < n; i++)
        if (registers[places[i]] != known[i]) {
            if (n_changed < FEW)
                changed[n_changed] = i;
            n_changed++;
        }
    if (n_changed > FEW) {
        std::vector<PyObject *> now, sorted;
        for (int place : places)
            now.push_back(registers[place]);
        sorted = now;
        std::sort(sorted.begin(), sorted.end());
        if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
            return false;
        known.swap(now);
        return true;
    }
    for (size_t k = 0; k < n_changed; k++)
        for (size_t i = 0; i < n; i++)
            if (i != changed[k] && registers[places[i]] == registers[places[changed[k]]])
                return false;
    for (size_t k = 0; k < n_changed; k++)
        known[changed[k]] = registers[places[changed[k]]];
    return true;
}

static inline int
run_step(Step *&at, PyObject **registers)
{
    Step &step = *at;
    PyObject *value = registers[step.source], *operand = step.operand;
    Py_ssize_t length;
    int found;
    switch (step.operation) {
    case TYPE:
        return (PyObject *)Py_TYPE(value) == operand;
    case IS:
        return value == operand;
    case SAME:
        return value == registers[step.target];
    case EQUALS:
        return same_constant(value, operand);
    case LENGTH:
        length = length_of(value);
        return length < 0 ? -1 : length == step.number;
    case KEYS:
        return same_keys(value, operand);
    case HAS_KEY:
        return PySequence_Contains(value, operand);
    case LACKS_KEY:
        found = PySequence_Contains(value, operand);
        return found < 0 ? -1 : !found;
    case LACKS_ATTRIBUTE:
        return lacks_attribute(value, operand);
    case CLASS_LACKS:
        return class_lacks(value, operand, &step.place);
    case NO_HOOKS:
        return no_hooks(value, step.details->places);
    case TENSOR:
        return tensor_matches(step.details->tensor, value);
    case DISTINCT:
        return all_distinct(*step.details, registers);
    case CONDITION:
        found = condition_holds(step.details->condition, step.details->registers, registers);
        return found == UNSURE ? ask_about_numbers(step, registers) : found;
    case ASK:
        return ask(step, registers);
    case CLASS_STANDS:
    case TUPLE_STANDS:
    case KEYS_STAND:
        at += stands(step, value) ? step.number : 0;
        return 1;
    case REMEMBER:
        return remember(at[-step.number], &step, value);
    default:
        return read_value(step, registers);
    }
}

static int
ask_all(Program *p, PyObject **registers)
{
    int holds = 0;
    try {
        holds = modes_match(p->modes);
        for (Step *step = p->steps->data(), *end = step + p->steps->size(); holds == 1 && step < end; step++)
            holds = run_step(step, registers);
    } catch (const std::exception &error) { /* a tensor that has no sizes, say */
        PyErr_SetString(PyExc_RuntimeError, error.what());
        holds = -1;
    }
    return holds;
}

static PyObject *
run(PyObject *self, PyObject *const *arguments, size_t nargsf, PyObject *kwnames)
{
    Program *p = (Program *)self;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_constants = PyTuple_GET_SIZE(p->constants);
    if (n != p->n_arguments || kwnames != NULL)
        return PyErr_Format(PyExc_TypeError, "the guard takes %zd arguments", p->n_arguments);
    enum { FEW = 256 };
    PyObject *few[FEW], **registers = p->n_registers <= FEW ? few : PyMem_New(PyObject *, p->n_registers);
    if (registers == NULL)
        return PyErr_NoMemory();
    memcpy(registers, arguments, n * sizeof(PyObject *));
    memcpy(registers + n, &PyTuple_GET_ITEM(p->constants, 0), n_constants * sizeof(PyObject *));
    memset(registers + n + n_constants, 0, (p->n_registers - n - n_constants) * sizeof(PyObject *));
    int holds = ask_all(p, registers);
    for (Py_ssize_t i = n + n_constants; i < p->n_registers; i++)
        Py_XDECREF(registers[i]);
    if (registers != few)
        PyMem_Free(registers);
    if (holds < 0 && PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_SystemError)) {
        PyErr_Clear(); /* the user's program meets it when it reads the value itself */
        Py_RETURN_FALSE;
    }
    return holds < 0 ? NULL : PyBool_FromLong(holds);
}

/* ---- making one ------------------------------------------------------------------------------------------------ */
static int
set_step(Step &step, PyObject *description)
{
    PyObject *list;
    if (!PyArg_ParseTuple(description, "iiiOO!", &step.operation, &step.source, &step.target, &step.operand,
                          &PyTuple_Type, &list)) {
        step.operand = NULL;
        return -1;
    }
    Py_INCREF(step.operand);
    Py_ssize_t n = PyTuple_GET_SIZE(list);
    if (n > 0 || step.operation == CALL || step.operation == ASK || step.operation == TENSOR
            || step.operation == NO_HOOKS)
        step.details.reset(new Details());
    if (step.operation <= FUNCTION_PART || step.operation == CLASS_LACKS)
        PyUnicode_InternInPlace(&step.operand);
    for (Py_ssize_t i = 0; i < n; i++)
        step.details->registers.push_back((int)PyLong_AsLong(PyTuple_GET_ITEM(list, i)));
    if (step.operation == TENSOR && read_tensor_facts(step.operand, step.details->tensor) < 0)
        return -1;
    if (step.operation == CONDITION && read_condition(&step.operand, step.details->condition) < 0)
        return -1;
    step.number = PyLong_CheckExact(step.operand) ? PyLong_AsSsize_t(step.operand) : -1;
    if (step.number == -1) /* a huge number, or none */
        PyErr_Clear();
    if (step.operation == FUNCTION_PART && (step.number = number_of_part(step.operand)) < 0)
        return -1;
    if (step.operation == DISTINCT)
        step.details->distinct.resize(n);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *
program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *ambient, *steps, *constants;
    Py_ssize_t n_arguments, n_registers;
    if (!PyArg_ParseTuple(args, "O!O!O!nn", &PyTuple_Type, &ambient, &PyList_Type, &steps, &PyTuple_Type, &constants,
                          &n_arguments, &n_registers))
        return NULL;
    Program *self = (Program *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = run;
    self->constants = Py_NewRef(constants);
    self->n_arguments = n_arguments;
    self->n_registers = n_registers;
    self->steps = new std::vector<Step>(PyList_GET_SIZE(steps));
    int failed = read_modes(ambient, self->modes) < 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(steps) && !failed; i++)
        failed = set_step((*self->steps)[i], PyList_GET_ITEM(steps, i)) < 0;
    if (failed)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int
program_traverse(Program *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->constants);
    Py_VISIT(self->guards);
    if (self->steps != NULL)
        for (Step &step : *self->steps)
            Py_VISIT(step.operand);
    return 0;
}

static int /* the steps stay: a check that is in a dead cycle may still be asked */
program_clear(Program *self)
{
    Py_CLEAR(self->guards);
    return 0;
}

static void
program_dealloc(Program *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    program_clear(self);
    if (self->steps != NULL)
        for (Step &step : *self->steps)
            Py_XDECREF(step.operand);
    delete self->steps;
    Py_CLEAR(self->constants);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"guards", T_OBJECT, offsetof(Program, guards), 0, "the GuardFunction that this is the check of"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Program, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot slots[] = {{Py_tp_new, (void *)program_new},           {Py_tp_dealloc, (void *)program_dealloc},
                              {Py_tp_traverse, (void *)program_traverse}, {Py_tp_clear, (void *)program_clear},
                              {Py_tp_members, members},                   {Py_tp_call, (void *)PyVectorcall_Call},
                              {0, NULL}};

static PyType_Spec spec = {"minicompile.dynamo._guards.Program", sizeof(Program), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

static PyMethodDef methods[] = {
    {"ambient_state", py_ambient_state, METH_NOARGS, "the modes that change what an operator does, as AMBIENT_NAMES"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_guards", "Guard checks; see the head of _guards.cpp.",
                                        -1, methods};

static int
add_constants(PyObject *module)
{
#define NAME_AND_NUMBER(name) {#name, name},
    const struct { const char *name; int number; } numbers[] = {
        OPERATIONS(NAME_AND_NUMBER) WORDS(NAME_AND_NUMBER) {"VALUE_HERE", VALUE_HERE}, {"OFFSET_HERE", OFFSET_HERE},
        {"DEEPEST", DEEPEST}};
    for (auto &each : numbers)
        if (PyModule_AddIntConstant(module, each.name, each.number) < 0)
            return -1;
    return PyModule_AddObject(module, "FUNCTION_PARTS", function_part_names());
}

PyMODINIT_FUNC
PyInit__guards(void)
{
    if (find_torch() < 0 || find_user_lookups() < 0 || intern_names() < 0)
        return NULL;
    PyObject *type = PyType_FromSpec(&spec), *module = type != NULL ? PyModule_Create(&definition) : NULL;
    PyObject *names = module != NULL ? ambient_names() : NULL;
    if (names == NULL || PyModule_AddObject(module, "Program", type) < 0
            || PyModule_AddObject(module, "AMBIENT_NAMES", names) < 0 || add_constants(module) < 0)
        return NULL;
    return module;
}
