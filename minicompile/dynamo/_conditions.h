/* Conditions on sizes and numbers (`x.stride(0) == x.shape[1]`, `rate > 0.25`), computed without a Python object.
 *
 * Goes in: where the numbers are, and the condition in postfix order; guard_conditions.py writes both.
 * Comes out: 1 or 0; or UNSURE where C's numbers are not Python's (an overflow, a division by zero).
 *
 * Mirrors the guards on sizes of torch/csrc/dynamo/guards.cpp.  Taught in chapter 07. */
#pragma once
#include "_torch_state.h"

#define WORDS(each)                                                                                                 \
    each(CONSTANT) each(VARIABLE) /* these push, the rest take one or two numbers and push one */                     \
    each(PLUS) each(MINUS) each(TIMES) each(DIVIDED) each(FLOOR_DIVIDED) each(MODULO) each(SMALLER) each(LARGER)    \
    each(LESS) each(LESS_EQUAL) each(GREATER) each(GREATER_EQUAL) each(EQUAL) each(UNEQUAL) each(BOTH) each(EITHER) \
    each(NEGATIVE) each(ABSOLUTE) each(OPPOSITE)
#define WORD_AND_COMMA(name) name,
enum Word { WORDS(WORD_AND_COMMA) };
enum { UNSURE = 2, DEEPEST = 16 };

enum Place_of_number { VALUE_HERE = -1, OFFSET_HERE = -2 }; /* else: dimension d of the sizes (2d) or strides (2d + 1) */

struct ConditionWord {
    int word, index; /* index: of a VARIABLE */
    int64_t whole;
    double real;
};

struct Condition {
    bool real; /* computed in double: all its numbers are floats */
    std::vector<int> places;
    std::vector<ConditionWord> words;
};

/* ---- the numbers ------------------------------------------------------------------------------------------------ */
static inline bool
number_at(PyObject *value, int place, int64_t &number)
{
    if (place == VALUE_HERE) {
        int overflow = 1;
        number = PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
        return !overflow;
    }
    if (!PyObject_TypeCheck(value, tensor_type))
        return false;
    c10::TensorImpl *tensor = implementation_of(value);
    if (place == OFFSET_HERE) {
        number = tensor->storage_offset();
        return true;
    }
    c10::IntArrayRef numbers = place & 1 ? tensor->strides() : tensor->sizes();
    number = (size_t)(place >> 1) < numbers.size() ? numbers[place >> 1] : 0;
    return (size_t)(place >> 1) < numbers.size();
}

static inline bool
number_at(PyObject *value, int place, double &number)
{
    number = PyFloat_CheckExact(value) ? PyFloat_AS_DOUBLE(value) : 0;
    return PyFloat_CheckExact(value);
}

/* ---- arithmetic as Python does it; false: not in C's numbers ------------------------------------------------------ */
static inline bool
arithmetic(int word, int64_t a, int64_t b, int64_t &result)
{
    bool exact = false;
    switch (word) {
    case PLUS:
        return !__builtin_add_overflow(a, b, &result);
    case MINUS:
        return !__builtin_sub_overflow(a, b, &result);
    case TIMES:
        return !__builtin_mul_overflow(a, b, &result);
    case FLOOR_DIVIDED:
        exact = b != 0 && b != -1;
        result = exact ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
        return exact;
    case MODULO:
        exact = b != 0 && b != -1;
        result = exact ? a % b : 0;
        result += result != 0 && (result < 0) != (b < 0) ? b : 0;
        return exact;
    default:
        return false;
    }
}

static inline bool
arithmetic(int word, double a, double b, double &result)
{
    result = word == PLUS ? a + b : word == MINUS ? a - b : word == TIMES ? a * b : b != 0 ? a / b : 0;
    return word <= TIMES || (word == DIVIDED && b != 0);
}

static inline bool
one_number(int word, int64_t &number)
{
    bool exact = number != INT64_MIN;
    number = word == OPPOSITE ? !number : exact && (word == NEGATIVE || number < 0) ? -number : number;
    return exact;
}

static inline bool
one_number(int word, double &number)
{
    number = word == OPPOSITE ? !number : word == NEGATIVE ? -number : std::fabs(number);
    return true;
}

template <typename Number> static inline bool
two_numbers(int word, Number a, Number b, Number &result)
{
    switch (word) {
    case SMALLER:
        result = b < a ? b : a;
        return true;
    case LARGER:
        result = b > a ? b : a;
        return true;
    case LESS:
        result = a < b;
        return true;
    case LESS_EQUAL:
        result = a <= b;
        return true;
    case GREATER:
        result = a > b;
        return true;
    case GREATER_EQUAL:
        result = a >= b;
        return true;
    case EQUAL:
        result = a == b;
        return true;
    case UNEQUAL:
        result = a != b;
        return true;
    case BOTH:
        result = a != 0 && b != 0;
        return true;
    case EITHER:
        result = a != 0 || b != 0;
        return true;
    default:
        return arithmetic(word, a, b, result);
    }
}

template <typename Number> static inline int
compute(const Condition &condition, const std::vector<int> &sources, PyObject **registers)
{
    Number stack[DEEPEST];
    int depth = 0;
    for (const ConditionWord &each : condition.words) {
        bool known = true;
        if (each.word == CONSTANT)
            stack[depth++] = condition.real ? (Number)each.real : (Number)each.whole; /* a double has 53 bits */
        else if (each.word == VARIABLE)
            known = number_at(registers[sources[each.index]], condition.places[each.index], stack[depth++]);
        else if (each.word >= NEGATIVE)
            known = one_number(each.word, stack[depth - 1]);
        else {
            depth--;
            known = two_numbers(each.word, stack[depth - 1], stack[depth], stack[depth - 1]);
        }
        if (!known)
            return UNSURE;
    }
    return stack[0] != 0;
}

static inline int
condition_holds(const Condition &condition, const std::vector<int> &sources, PyObject **registers)
{
    return condition.real ? compute<double>(condition, sources, registers)
                          : compute<int64_t>(condition, sources, registers);
}

/* ---- the description: (Python function, real, places, words); a word is (word, index or constant) ------------------- */
static int
read_words(PyObject *words, Condition &condition)
{
    int depth = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(words); i++) {
        ConditionWord word = {};
        PyObject *number;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(words, i), "iO", &word.word, &number))
            return -1;
        if (word.word == CONSTANT && condition.real)
            word.real = PyFloat_AsDouble(number);
        else if (word.word == CONSTANT)
            word.whole = PyLong_AsLongLong(number);
        else
            word.index = (int)PyLong_AsLong(number);
        depth += word.word <= VARIABLE ? 1 : word.word < NEGATIVE ? -1 : 0;
        if (PyErr_Occurred() || depth < 1 || depth > DEEPEST
                || (word.word == VARIABLE && (size_t)word.index >= condition.places.size())) {
            PyErr_SetString(PyExc_ValueError, "not a condition");
            return -1;
        }
        condition.words.push_back(word);
    }
    return depth == 1 ? 0 : (PyErr_SetString(PyExc_ValueError, "not one condition"), -1);
}

static int /* leaves the function there */
read_condition(PyObject **description, Condition &condition)
{
    PyObject *function, *places, *words;
    int real;
    if (!PyArg_ParseTuple(*description, "OpO!O!", &function, &real, &PyTuple_Type, &places, &PyTuple_Type, &words))
        return -1;
    condition.real = real;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); i++)
        condition.places.push_back((int)PyLong_AsLong(PyTuple_GET_ITEM(places, i)));
    if (PyErr_Occurred() || read_words(words, condition) < 0)
        return -1;
    Py_SETREF(*description, Py_NewRef(function));
    return 0;
}
