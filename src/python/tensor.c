/* moontensor.Tensor: a native tensor as a Python object, for consumers of DLPack, its C exchange API, buffers and arrays. */
#include "exchange.h"
#include <stdlib.h>
#include <string.h>

typedef struct tensor_object {
    PyObject_HEAD moon_tensor t;
    bool exported; /* the storage is held as an export; else it is the object's own */
} tensor_object;

static PyTypeObject *TensorType;
static int exchange_look(void *o, moon_dl_tensor *out);

static const moon_tensor *tensor_of(PyObject *self) { return &((tensor_object *)self)->t; }

/* closed, with room for ndim dimensions */
static tensor_object *new_object(int ndim) {
    tensor_object *self = PyObject_New(tensor_object, TensorType);
    if (self == NULL) return NULL;
    self->t = (moon_tensor){.ndim = ndim};
    self->exported = false;
    self->t.shape = (int64_t *)malloc(2 * (size_t)(ndim > 0 ? ndim : 1) * sizeof(int64_t));
    if (self->t.shape == NULL) {
        Py_DECREF((PyObject *)self);
        PyErr_NoMemory();
        return NULL;
    }
    self->t.strides = self->t.shape + ndim;
    return self;
}

static void dealloc(PyObject *o) {
    tensor_object *self = (tensor_object *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (self->exported) moon->export_end(self->t.storage);
    else if (self->t.storage != NULL) moon->close(&self->t);
    free(self->t.shape);
    PyObject_Free(o);
    Py_DECREF(type);
}

PyObject *tensor_object_of(const moon_tensor *t) {
    tensor_object *self = new_object(t->ndim);
    if (self == NULL) return NULL;
    int64_t *shape = self->t.shape, *strides = self->t.strides;
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    memcpy(strides, t->strides, (size_t)t->ndim * sizeof *strides);
    self->t = *t;
    self->t.shape = shape;
    self->t.strides = strides;
    self->exported = true;
    moon->export_begin(t->storage);
    return (PyObject *)self;
}

bool is_tensor_object(PyObject *o) { return Py_TYPE(o) == TensorType; }

int tensor_object_import(importer *in, PyObject *o) {
    moon_dl_tensor dl;
    if (exchange_look(o, &dl) < 0) return -1;
    lease *l = lease_new(Py_NewRef(o));
    return l == NULL ? -1 : import_adopt(in, &dl, tensor_of(o)->readonly, l);
}

/* what a consumer in Python expects instead of our conversion errors */
static PyObject *as_buffer_error(PyObject *value) {
    char text[512];
    if (value != NULL) return value;
    PyObject *type, *e, *trace;
    PyErr_Fetch(&type, &e, &trace);
    PyErr_NormalizeException(&type, &e, &trace);
    if (e != NULL && conversion_text(e, text, sizeof text)) {
        PyErr_SetString(PyExc_BufferError, text);
        Py_XDECREF(type);
        Py_XDECREF(e);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, e, trace);
    }
    return NULL;
}

/* ---- DLPack ---- */

static PyObject *copy_of(const moon_tensor *t) {
    tensor_object *copy = new_object(t->ndim);
    if (copy == NULL) return NULL;
    if (moon->copy_of(&copy->t, t, MOON_DTYPE_COUNT) != MOON_OK) {
        Py_DECREF((PyObject *)copy);
        PyErr_SetString(PyExc_BufferError, moon->message());
        return NULL;
    }
    return (PyObject *)copy;
}

static int is_cpu(PyObject *device) { /* -1: an error */
    int type = 0, id = 0;
    if (device == Py_None) return 1;
    if (!PyArg_ParseTuple(device, "ii;dl_device is a tuple (type, id)", &type, &id)) return -1;
    return type == MOON_DL_CPU && id == 0;
}

static PyObject *dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy)) return NULL;
    if (stream != Py_None) {
        PyErr_SetString(PyExc_BufferError, "a tensor on the CPU has no stream");
        return NULL;
    }
    int cpu = PyTuple_Check(device) || device == Py_None ? is_cpu(device) : -1;
    if (cpu <= 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_BufferError, "the tensor is on the CPU, device (1, 0)");
        return NULL;
    }
    int major = 0, minor = 0;
    if (version != Py_None && (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii", &major, &minor))) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "max_version is a tuple (major, minor)");
        return NULL;
    }
    if (copy != Py_True) return as_buffer_error(capsule_of(tensor_of(self), major >= 1));
    PyObject *own = copy_of(tensor_of(self)), *capsule = own ? capsule_of(tensor_of(own), major >= 1) : NULL;
    Py_XDECREF(own);
    return as_buffer_error(capsule);
}

static PyObject *dlpack_device(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    return Py_BuildValue("(ii)", MOON_DL_CPU, 0);
}

/* ---- DLPack's C exchange API: no Python objects between ---- */

static int exchange_allocate(moon_dl_tensor *prototype, moon_dl_versioned **out, void *context,
                             void (*fail)(void *, const char *, const char *)) {
    (void)prototype, (void)out;
    fail(context, "NotImplementedError", "moontensor allocates tensors in Lua only");
    return -1;
}

static int exchange_from(void *o, moon_dl_versioned **out) {
    if (!is_tensor_object((PyObject *)o)) {
        PyErr_SetString(PyExc_TypeError, "no moontensor.Tensor");
        return -1;
    }
    if (moon->dl_export(tensor_of((PyObject *)o), MOON_DL_FOR_NUMPY, out) == MOON_OK) return 0;
    PyErr_SetString(PyExc_BufferError, moon->message());
    return -1;
}

static int exchange_to(moon_dl_versioned *m, void **out) {
    tensor_object *self = new_object(m->version.major == MOON_DL_MAJOR ? m->dl_tensor.ndim : 0);
    if (self == NULL) return -1;
    bool consumed = false;
    if (moon->adopt_managed(&self->t, m, NULL, &consumed) != MOON_OK) {
        PyErr_SetString(PyExc_BufferError, moon->message());
        Py_DECREF((PyObject *)self);
        return -1;
    }
    *out = self;
    return 0;
}

/* borrowed: as long as the object lives */
static int exchange_look(void *o, moon_dl_tensor *out) {
    if (!is_tensor_object((PyObject *)o)) {
        PyErr_SetString(PyExc_TypeError, "no moontensor.Tensor");
        return -1;
    }
    const moon_tensor *t = tensor_of((PyObject *)o);
    *out = (moon_dl_tensor){.data = moon->data(t),
                            .device = {MOON_DL_CPU, 0},
                            .ndim = t->ndim,
                            .dtype = moon->dtype_to_dl((moon_dtype)t->dtype),
                            .shape = t->shape,
                            .strides = t->strides};
    return 0;
}

static int exchange_stream(int32_t type, int32_t id, void **out) {
    (void)type, (void)id;
    *out = NULL;
    return 0;
}

static const exchange_api own_api = {.header = {{MOON_DL_MAJOR, MOON_DL_MINOR}, NULL},
                                     .allocator = exchange_allocate,
                                     .managed_tensor_from_py = exchange_from,
                                     .managed_tensor_to_py = exchange_to,
                                     .dltensor_from_py = exchange_look,
                                     .current_work_stream = exchange_stream};

/* ---- the buffer protocol ---- */

/* as the struct module has them; uint64 is 'L', for 'Q' is a type of its own in NumPy that torch refuses */
static const char *format_of(moon_dtype dtype) {
    static const char *const formats[MOON_DTYPE_COUNT] = {
        [MOON_BOOL] = "?",    [MOON_INT8] = "b",    [MOON_INT16] = "h",      [MOON_INT32] = "i",       [MOON_INT64] = "l",
        [MOON_UINT8] = "B",   [MOON_UINT16] = "H",  [MOON_UINT32] = "I",     [MOON_UINT64] = "L",      [MOON_FLOAT16] = "e",
        [MOON_FLOAT32] = "f", [MOON_FLOAT64] = "d", [MOON_COMPLEX64] = "Zf", [MOON_COMPLEX128] = "Zd",
    };
    return formats[dtype];
}

static int getbuffer(PyObject *self, Py_buffer *view, int flags) {
    const moon_tensor *t = tensor_of(self);
    const char *format = format_of((moon_dtype)t->dtype);
    bool contiguous = moon->is_contiguous(t), strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
    view->obj = NULL;
    if ((flags & PyBUF_WRITABLE) && t->readonly) {
        PyErr_SetString(PyExc_BufferError, "the tensor is read-only");
        return -1;
    }
    if (!contiguous && (!strided || (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS)) {
        PyErr_SetString(PyExc_BufferError, "the tensor is not C-contiguous; x:contiguous() is");
        return -1;
    }
    if (format == NULL) {
        PyErr_Format(PyExc_BufferError, "buffers have no format for %s; x:view(\"%s\") has its bits",
                     moon->dtype_name((moon_dtype)t->dtype), moon->dtype_size((moon_dtype)t->dtype) == 2 ? "uint16" : "uint8");
        return -1;
    }
    Py_ssize_t size = (Py_ssize_t)moon->dtype_size((moon_dtype)t->dtype);
    Py_ssize_t *dims = (Py_ssize_t *)PyMem_Malloc(2 * (size_t)(t->ndim > 0 ? t->ndim : 1) * sizeof *dims);
    if (dims == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < t->ndim; i++) {
        dims[i] = (Py_ssize_t)t->shape[i];
        dims[t->ndim + i] = (Py_ssize_t)t->strides[i] * size;
    }
    *view = (Py_buffer){.buf = moon->data(t),
                        .len = (Py_ssize_t)t->numel * size,
                        .itemsize = size,
                        .readonly = t->readonly,
                        .ndim = t->ndim,
                        .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)format : NULL,
                        .shape = flags & PyBUF_ND ? dims : NULL,
                        .strides = strided ? dims + t->ndim : NULL,
                        .internal = dims};
    view->obj = self;
    Py_INCREF(self);
    return 0;
}

static void releasebuffer(PyObject *self, Py_buffer *view) {
    (void)self;
    PyMem_Free(view->internal);
}

/* ---- the rest, by way of NumPy ---- */

static PyObject *as_array(PyObject *self) { return as_buffer_error(numpy_ready() < 0 ? NULL : numpy_share(tensor_of(self))); }

static PyObject *array(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy)) return NULL;
    PyObject *a = as_array(self);
    if (a == NULL || (dtype == Py_None && copy != Py_True)) return a;
    PyObject *own = dtype != Py_None ? PyObject_GetAttrString(a, "dtype") : NULL;
    int same = dtype == Py_None ? 1 : own ? PyObject_RichCompareBool(own, dtype, Py_EQ) : -1;
    PyObject *result = NULL;
    if (same == 0 && copy == Py_False) PyErr_SetString(PyExc_ValueError, "another dtype needs a copy");
    else if (same == 0) result = PyObject_CallMethod(a, "astype", "O", dtype);
    else if (same > 0 && copy == Py_True) result = PyObject_CallMethod(a, "copy", NULL);
    else if (same > 0) result = Py_NewRef(a);
    Py_XDECREF(own);
    Py_DECREF(a);
    return result;
}

static Py_ssize_t length(PyObject *self) {
    if (tensor_of(self)->ndim > 0) return (Py_ssize_t)tensor_of(self)->shape[0];
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
}

static PyObject *getitem(PyObject *self, PyObject *key) {
    PyObject *a = as_array(self), *item = a ? PyObject_GetItem(a, key) : NULL;
    Py_XDECREF(a);
    return item;
}

static PyObject *tuple_of(const int64_t *values, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple != NULL && i < n; i++) {
        PyObject *v = PyLong_FromLongLong(values[i]);
        if (v == NULL || PyTuple_SetItem(tuple, i, v) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *unused) {
    (void)unused;
    return tuple_of(tensor_of(self)->shape, tensor_of(self)->ndim);
}
static PyObject *get_strides(PyObject *self, void *unused) {
    (void)unused;
    return tuple_of(tensor_of(self)->strides, tensor_of(self)->ndim);
}
static PyObject *get_ndim(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(tensor_of(self)->ndim);
}
static PyObject *get_dtype(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(moon->dtype_name((moon_dtype)tensor_of(self)->dtype));
}
static PyObject *get_readonly(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(tensor_of(self)->readonly);
}

static PyObject *repr(PyObject *self) {
    const moon_tensor *t = tensor_of(self);
    PyObject *shape = tuple_of(t->shape, t->ndim);
    PyObject *text = shape ? PyUnicode_FromFormat("moontensor.Tensor(%s, %S)", moon->dtype_name((moon_dtype)t->dtype), shape)
                           : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", dlpack_device, METH_NOARGS, NULL},
    {"__array__", (PyCFunction)(void (*)(void))array, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef fields[] = {
    {"shape", get_shape, NULL, "The extents.", NULL},
    {"strides", get_strides, NULL, "The strides, in elements.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"dtype", get_dtype, NULL, "The name of the element type.", NULL},
    {"readonly", get_readonly, NULL, "May the memory not be written?", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_repr, (void *)repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {Py_mp_length, (void *)length},
    {Py_sq_length, (void *)length},
    {Py_mp_subscript, (void *)getitem},
    {Py_bf_getbuffer, (void *)getbuffer},
    {Py_bf_releasebuffer, (void *)releasebuffer},
    {Py_tp_doc, (void *)"A native tensor of Lua: DLPack, buffer and array protocols over its memory."},
    {0, NULL},
};
static PyType_Spec spec = {"moontensor.Tensor", sizeof(tensor_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

int init_tensor_type(void) {
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "moontensor");
    TensorType = (PyTypeObject *)PyType_FromSpec(&spec);
    if (module == NULL || TensorType == NULL) return -1;
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&own_api, "dlpack_exchange_api", NULL);
    int failed = capsule == NULL || PyObject_SetAttrString((PyObject *)TensorType, "__dlpack_c_exchange_api__", capsule) < 0;
    Py_XDECREF(capsule);
    return failed ? -1 : PyModule_AddObjectRef(module, "Tensor", (PyObject *)TensorType);
}
