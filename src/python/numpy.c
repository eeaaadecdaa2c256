/* NumPy, by its C API, which compiles under the limited API. Imported at first use; nothing else of the bridge needs it. */
#include "exchange.h"
#include <stdio.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_25_API_VERSION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wundef"
#include <numpy/arrayobject.h>
#pragma GCC diagnostic pop

/* ---- loading ---- */

static int import_api(void) {
    import_array1(-1);
    return 0;
}

int numpy_load(cross *c) {
    if (likely(PyArray_API != NULL)) return 0;
    PyObject *numpy = import_module(c, "numpy", "numpy");
    if (numpy == NULL) return -1;
    Py_DECREF(numpy);
    int failed;
    UNLOCKED(c, failed = import_api());
    return failed;
}

int numpy_ready(void) {
    if (likely(PyArray_API != NULL)) return 0;
    PyObject *numpy = PyImport_ImportModule("numpy");
    Py_XDECREF(numpy);
    return numpy != NULL ? import_api() : -1;
}

static PyObject *module_name;

/* No array exists before NumPy is imported, so that asking need not import it. */
static bool loaded(void) {
    if (likely(PyArray_API != NULL)) return true;
    if (module_if_loaded(&module_name, "numpy") == NULL) return false;
    if (import_api() == 0) return true;
    PyErr_Clear();
    return false;
}

bool numpy_known(PyObject *o) { return PyArray_API != NULL && PyArray_CheckExact(o); }
bool numpy_array(PyObject *o) { return loaded() && PyArray_Check(o); }

/* ---- dtypes ---- */

/* uint64 is ulong and not ulonglong: torch refuses the latter */
static const int type_numbers[MOON_DTYPE_COUNT] = {
    [MOON_BOOL] = NPY_BOOL,
    [MOON_INT8] = NPY_INT8,
    [MOON_INT16] = NPY_INT16,
    [MOON_INT32] = NPY_INT32,
    [MOON_INT64] = NPY_INT64,
    [MOON_UINT8] = NPY_UINT8,
    [MOON_UINT16] = NPY_UINT16,
    [MOON_UINT32] = NPY_UINT32,
    [MOON_UINT64] = NPY_UINT64,
    [MOON_FLOAT16] = NPY_FLOAT16,
    [MOON_BFLOAT16] = NPY_NOTYPE,
    [MOON_FLOAT32] = NPY_FLOAT32,
    [MOON_FLOAT64] = NPY_FLOAT64,
    [MOON_COMPLEX64] = NPY_COMPLEX64,
    [MOON_COMPLEX128] = NPY_COMPLEX128,
    [MOON_FLOAT8_E4M3FN] = NPY_NOTYPE,
    [MOON_FLOAT8_E5M2] = NPY_NOTYPE,
};

static const char *torch_scalar_name(moon_dtype dtype) { /* as torch's own message has it */
    return dtype == MOON_BFLOAT16 ? "BFloat16" : dtype == MOON_FLOAT8_E5M2 ? "Float8_e5m2" : "Float8_e4m3fn";
}

static PyArray_Descr *descriptor(moon_dtype dtype) {
    if (type_numbers[dtype] != NPY_NOTYPE) return PyArray_DescrFromType(type_numbers[dtype]);
    const char *name = moon->dtype_name(dtype);
    conversion_error("NumPy has no %s (got unsupported ScalarType %s); share it as x:to_torch(), or convert it: "
                     "x:astype(\"float32\"):to_numpy()",
                     name, torch_scalar_name(dtype));
    return NULL;
}

/* false: an element type that we lack */
static bool dtype_of(PyArrayObject *a, moon_dtype *out) {
    int number = PyArray_TYPE(a);
    if (number == NPY_LONGLONG) number = NPY_INT64;
    if (number == NPY_ULONGLONG) number = NPY_UINT64;
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) {
        if (type_numbers[d] != number || number == NPY_NOTYPE) continue;
        *out = (moon_dtype)d;
        return true;
    }
    return false;
}

/* ---- in ---- */

static int refuse(PyArrayObject *a, const char *what, const char *way_out) {
    PyObject *text = PyObject_Str((PyObject *)PyArray_DESCR(a));
    if (text == NULL) return -1;
    conversion_error("a NumPy array of dtype %U %s; %s", text, what, way_out);
    Py_DECREF(text);
    return -1;
}

/* 0: bytes as they are can be ours; 1: only a converted copy can; -1: refused */
static int judge(PyArrayObject *a) {
    moon_dtype dtype;
    if (!dtype_of(a, &dtype)) {
        return refuse(a, "has no counterpart here",
                      "convert it in NumPy, for numbers with a:astype(\"float64\") or {copy = true, dtype = \"float64\"}");
    }
    if (PyArray_ISBYTESWAPPED(a)) return 1;
    npy_intp size = PyArray_ITEMSIZE(a);
    if (PyArray_SIZE(a) == 0) return 0;
    if (!PyArray_ISALIGNED(a)) return 1;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        if (PyArray_DIM(a, i) > 1 && PyArray_STRIDE(a, i) % size != 0) return 1;
    }
    return 0;
}

static int refuse_layout(PyArrayObject *a) {
    if (PyArray_ISBYTESWAPPED(a)) {
        return refuse(a, "has the other byte order and cannot be shared",
                      "{copy = true} swaps it into a copy, a:byteswap() in NumPy does it in place");
    }
    if (PyArray_ISALIGNED(a)) {
        return refuse(a, "has strides that are no multiple of its element size and cannot be shared", "use {copy = true}");
    }
    char what[128];
    size_t size = (size_t)PyArray_ITEMSIZE(a);
    snprintf(what, sizeof what, "has its data misaligned (%zu mod %zu) and cannot be shared", (uintptr_t)PyArray_DATA(a) % size,
             size);
    return refuse(a, what, "use {copy = true}");
}

int numpy_adopt(importer *in, PyObject *array, moon_dtype dtype, bool torch_base) {
    PyArrayObject *a = (PyArrayObject *)array;
    int64_t dims[2 * MOON_MAXDIM];
    int ndim = PyArray_NDIM(a);
    npy_intp size = PyArray_ITEMSIZE(a);
    if (dtype == MOON_DTYPE_COUNT && !dtype_of(a, &dtype)) return judge(a);
    moon_dl_tensor dl = {.data = PyArray_DATA(a),
                         .device = {MOON_DL_CPU, 0},
                         .ndim = ndim,
                         .dtype = moon->dtype_to_dl(dtype),
                         .shape = dims,
                         .strides = dims + ndim};
    bool empty = false;
    for (int i = 0; i < ndim; i++) {
        dims[i] = PyArray_DIM(a, i);
        dims[ndim + i] = PyArray_STRIDE(a, i) / size;
        empty |= dims[i] == 0;
    }
    if (empty) dl.strides = NULL; /* NumPy's are all zero then */
    Py_INCREF(array);
    lease *l = lease_new(array);
    if (l == NULL) return -1;
    if (torch_base) lease_bump_base(l);
    return import_adopt(in, &dl, !PyArray_ISWRITEABLE(a), l);
}

/* An array that NumPy can convert: a temporary. */
static int convert(importer *in, PyArrayObject *a) {
    moon_dtype dtype = MOON_DTYPE_COUNT;
    dtype_of(a, &dtype);
    PyArray_Descr *descr = descriptor(dtype);
    PyObject *copy = descr ? PyArray_FromArray(a, descr, NPY_ARRAY_ENSURECOPY | NPY_ARRAY_CARRAY | NPY_ARRAY_ENSUREARRAY) : NULL;
    if (copy == NULL) return -1;
    in->transient = true;
    int failed = numpy_adopt(in, copy, MOON_DTYPE_COUNT, false);
    Py_DECREF(copy);
    return failed;
}

/* An element type that we lack, and one that was asked for: NumPy knows whether it can. */
static int cast(importer *in, PyObject *o) {
    PyErr_Clear();
    PyObject *copy;
    UNLOCKED(in->c, copy = numpy_as_array(o, in->dtype));
    if (copy == NULL) return -1;
    in->transient = true;
    int failed = numpy_adopt(in, copy, MOON_DTYPE_COUNT, false);
    Py_DECREF(copy);
    return failed;
}

/* Masked arrays would lose their mask without a word. */
static int check_mask(PyObject *o) {
    static PyObject *mask_name;
    if (likely(PyArray_CheckExact(o))) return 0;
    if (interned(&mask_name, "_mask") == NULL) return -1;
    if (!PyObject_HasAttr(o, mask_name)) return 0;
    conversion_error("a masked array has no counterpart here; fill it first: a:filled(value), or take a.data and a.mask apart");
    return -1;
}

int numpy_import(importer *in, PyObject *o) {
    PyArrayObject *a = (PyArrayObject *)o;
    if (check_mask(o) < 0) return -1;
    int verdict = judge(a);
    if (verdict < 0) return in->convert && in->dtype != MOON_DTYPE_COUNT ? cast(in, o) : -1;
    if (verdict == 0) return numpy_adopt(in, o, MOON_DTYPE_COUNT, false);
    return in->convert ? convert(in, a) : refuse_layout(a);
}

PyObject *numpy_as_array(PyObject *o, moon_dtype dtype) {
    if (!loaded()) return NULL;
    PyArray_Descr *descr = NULL;
    /* what NumPy lacks is rounded by us, once, from double */
    if (dtype != MOON_DTYPE_COUNT) descr = descriptor(type_numbers[dtype] == NPY_NOTYPE ? MOON_FLOAT64 : dtype);
    if (descr == NULL && PyErr_Occurred()) return NULL;
    return PyArray_FromAny(o, descr, 0, 0, NPY_ARRAY_ENSUREARRAY | NPY_ARRAY_FORCECAST, NULL);
}

int buffer_import(importer *in, PyObject *o) {
    if (numpy_load(in->c) < 0) return -1;
    PyObject *view = PyMemoryView_FromObject(o), *array = NULL;
    if (view != NULL) UNLOCKED(in->c, array = numpy_as_array(view, MOON_DTYPE_COUNT));
    Py_XDECREF(view);
    if (array == NULL) return -1;
    int failed = numpy_import(in, array);
    Py_DECREF(array);
    return failed;
}

/* ---- out ---- */

static const char storage_name[] = "moontensor.storage";

static void release_storage(PyObject *capsule) {
    PY_ERROR_ASIDE(moon->export_end((moon_storage *)PyCapsule_GetPointer(capsule, storage_name)));
}

/* what keeps the memory under an array: counts as an export until it dies, on whatever thread */
static PyObject *new_base(moon_storage *storage) {
    PyObject *base = PyCapsule_New(storage, storage_name, release_storage);
    if (base != NULL) moon->export_begin(storage);
    return base;
}

static void layout(const moon_tensor *t, npy_intp *dims, npy_intp *strides) {
    npy_intp size = (npy_intp)moon->dtype_size((moon_dtype)t->dtype);
    for (int i = 0; i < t->ndim; i++) {
        dims[i] = (npy_intp)t->shape[i];
        strides[i] = (npy_intp)t->strides[i] * size;
    }
}

static PyObject *new_array(const moon_tensor *t) { /* with memory of its own, row-major */
    PyArray_Descr *descr = descriptor((moon_dtype)t->dtype);
    npy_intp dims[MOON_MAXDIM], strides[MOON_MAXDIM];
    if (descr == NULL) return NULL;
    layout(t, dims, strides);
    return PyArray_NewFromDescr(&PyArray_Type, descr, t->ndim, dims, NULL, NULL, 0, NULL);
}

PyObject *numpy_share(const moon_tensor *t) {
    if (t->numel == 0) return new_array(t); /* nothing to share, and no lease to hold */
    void *data = moon->data(t);
    if (data == NULL) return conversion_error("the tensor is not in host memory; x:to(\"cpu\") brings it there");
    PyArray_Descr *descr = descriptor((moon_dtype)t->dtype);
    if (descr == NULL) return NULL;
    npy_intp dims[MOON_MAXDIM], strides[MOON_MAXDIM];
    layout(t, dims, strides);
    PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, t->ndim, dims, strides, data,
                                           t->readonly ? 0 : NPY_ARRAY_WRITEABLE, NULL);
    if (array == NULL) return NULL;
    PyObject *base = new_base(t->storage);
    /* steals base, also on failure */
    if (base == NULL || PyArray_SetBaseObject((PyArrayObject *)array, base) < 0) Py_CLEAR(array);
    return array;
}

PyObject *numpy_copy(cross *c, const moon_tensor *t, moon_tensor *blank) {
    PyObject *array = new_array(t);
    if (array == NULL || t->numel == 0) return array;
    importer in = {.c = c, .blank = blank, .dtype = MOON_DTYPE_COUNT};
    if (numpy_adopt(&in, array, MOON_DTYPE_COUNT, false) < 0 || copy_contents(c, blank, t) < 0) Py_CLEAR(array);
    moon->close(blank);
    return array;
}
