/* Memory for large results on the CPU, which outlives them: the pages of what one call returned serve the next.
 *
 * The C library hands large memory back to the system when it is freed, and each page of what it takes anew is cleared
 * and mapped when it is first touched: for a kernel that does little more than write, that is half of its time.
 *
 * Goes in: allocate(empty tensor, size, stride).  Comes out: the tensor, with memory and these sizes.  When its last
 * owner is gone the memory is kept, up to so many bytes altogether.  keep(bytes) sets how many; returned: those kept.
 *
 * Does for the CPU what c10/cuda/CUDACachingAllocator.cpp does for a GPU.  Taught in chapter 10. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <c10/core/CPUAllocator.h>
#include <cstdlib>
#include <deque>
#include <mutex>
#include "../../_tensors.h"
#ifdef __linux__
#include <sys/mman.h>
#endif

static const size_t HUGE_PAGE = (size_t)1 << 21, LARGE = 2 * HUGE_PAGE; /* bytes; less is left to PyTorch's allocator */

struct Memory {
    void *start;
    size_t nbytes;
};

static std::mutex mutex;
static std::deque<Memory> &kept = *new std::deque<Memory>; /* the oldest first; never destroyed: tensors end later */
static size_t kept_nbytes, limit;

/* Drops the oldest until `room` more bytes fit. */
static void
make_room(size_t room)
{
    while (!kept.empty() && kept_nbytes + room > limit) {
        kept_nbytes -= kept.front().nbytes;
        std::free(kept.front().start);
        kept.pop_front();
    }
}

/* When a tensor's storage dies.  Where another thread is at it (in a forked process: was), memory is not kept. */
static void
give_back(void *context)
{
    Memory memory = *(Memory *)context;
    delete (Memory *)context;
    c10::profiledCPUMemoryReporter().Delete(memory.start);
    std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
    if (!lock.owns_lock() || memory.nbytes > limit) {
        std::free(memory.start);
        return;
    }
    make_room(memory.nbytes);
    kept_nbytes += memory.nbytes;
    kept.push_back(memory);
}

/* The youngest kept memory that is large enough, and by an eighth at most too large. */
static void *
take_kept(size_t nbytes, size_t *found)
{
    std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
    if (lock.owns_lock())
        for (auto memory = kept.rbegin(); memory != kept.rend(); memory++)
            if (memory->nbytes >= nbytes && memory->nbytes - nbytes <= nbytes / 8) {
                void *start = memory->start;
                *found = memory->nbytes;
                kept_nbytes -= memory->nbytes;
                kept.erase(std::next(memory).base());
                return start;
            }
    return nullptr;
}

static c10::DataPtr
allocate(size_t nbytes)
{
    size_t found = nbytes;
    void *start = nbytes >= LARGE ? take_kept(nbytes, &found) : nullptr;
    if (start == nullptr) {
        if (nbytes < LARGE || posix_memalign(&start, HUGE_PAGE, nbytes) != 0)
            return c10::GetCPUAllocator()->allocate(nbytes); /* which knows what to raise, too */
#ifdef MADV_HUGEPAGE
        madvise(start, nbytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* the first touch then costs a third */
#endif
    }
    c10::profiledCPUMemoryReporter().New(start, found);
    return {start, new Memory{start, found}, give_back, c10::Device(c10::kCPU)};
}

static bool
read_numbers(PyObject *tuple, c10::SmallVector<int64_t, 8> &result)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        result.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i)));
    return !PyErr_Occurred();
}

static PyObject *
py_allocate(PyObject *module, PyObject *args)
{
    PyObject *tensor, *size, *stride;
    c10::SmallVector<int64_t, 8> sizes, strides;
    if (!PyArg_ParseTuple(args, "O!O!O!", tensor_type, &tensor, &PyTuple_Type, &size, &PyTuple_Type, &stride)
            || !read_numbers(size, sizes) || !read_numbers(stride, strides))
        return NULL;
    c10::TensorImpl *implementation = implementation_of(tensor);
    int64_t last = 0; /* element */
    bool empty = false;
    for (size_t i = 0; i < sizes.size() && i < strides.size(); i++) {
        last += (sizes[i] - 1) * strides[i];
        empty |= sizes[i] == 0;
    }
    size_t nbytes = empty ? 0 : (last + 1) * implementation->itemsize();
    try {
        implementation->set_storage_keep_dtype(c10::make_intrusive<c10::StorageImpl>(
                c10::StorageImpl::use_byte_size_t(), nbytes, allocate(nbytes), c10::GetCPUAllocator(), true));
        implementation->set_sizes_and_strides(sizes, strides);
    } catch (const std::exception &error) {
        return PyErr_Format(PyExc_RuntimeError, "%s", error.what());
    }
    return Py_NewRef(tensor);
}

static PyObject *
py_keep(PyObject *module, PyObject *nbytes)
{
    size_t wanted = PyLong_AsSize_t(nbytes);
    if (PyErr_Occurred())
        return NULL;
    std::unique_lock<std::mutex> lock(mutex);
    size_t before = kept_nbytes;
    limit = wanted;
    make_room(0);
    return PyLong_FromSize_t(before);
}

static PyMethodDef methods[] = {
    {"allocate", py_allocate, METH_VARARGS, "allocate(tensor, size, stride): the tensor, with memory of its own"},
    {"keep", py_keep, METH_O, "keep(bytes): keep so many at most; returns how many were kept"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_memory", "Keeps memory; see the head of _memory.cpp.",
                                        -1, methods};

PyMODINIT_FUNC
PyInit__memory(void)
{
    return find_torch() < 0 ? NULL : PyModule_Create(&definition);
}
