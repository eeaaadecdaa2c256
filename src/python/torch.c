/* torch, by DLPack's C exchange API: exact Tensor and Parameter only, since subclasses inherit the table and may hold no memory.
   What that API leaves unchecked (autograd, conj, neg) is checked here. */
#include "exchange.h"
#include <stdio.h>
#include <string.h>

/* filled once, under the GIL; tensor last, as it says that the rest is there */
static PyTypeObject *tensor_type, *parameter_type;
static const exchange_api *api;                                 /* NULL: a torch without one */
static PyObject *numpy_method, *is_neg_method, *is_conj_method; /* unbound methods of Tensor */
static PyObject *from_dlpack, *empty_function, *empty_names, *cpu;
static PyObject *bump;                     /* torch._C._increment_version; NULL: this torch lacks it */
static PyObject *dtypes[MOON_DTYPE_COUNT]; /* torch.float32, ...; NULL: this torch lacks it */
static PyObject *requires_grad_name, *dtype_name, *view_name, *module_name;

/* ---- loading ---- */

static const exchange_api *find_api(PyObject *type) {
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    const exchange_api *found = NULL;
    if (capsule != NULL && PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
        found = (const exchange_api *)PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    }
    Py_XDECREF(capsule); /* the table lives as long as the process */
    PyErr_Clear();
    while (found != NULL && found->header.version.major > MOON_DL_MAJOR) found = (const exchange_api *)found->header.prev_api;
    return found != NULL && found->header.version.major == MOON_DL_MAJOR ? found : NULL;
}

static PyObject *optional(PyObject *o, const char *name) {
    PyObject *value = o ? PyObject_GetAttrString(o, name) : NULL;
    if (value == NULL) PyErr_Clear();
    return value;
}

/* a floor, not an exact pin; what follows the numbers, "a0+git", is no matter */
static int check_version(PyObject *torch) {
    enum { MAJOR = 2, MINOR = 3 };
    PyObject *version = PyObject_GetAttrString(torch, "__version__"), *text = version ? PyObject_Str(version) : NULL;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    int major = 0, minor = 0, failed = -1;
    if (s != NULL && sscanf(s, "%d.%d", &major, &minor) != 2) {
        conversion_error("torch has the version '%s', which says nothing; moontensor needs torch %d.%d or later", s, MAJOR,
                         MINOR);
    } else if (s != NULL && (major < MAJOR || (major == MAJOR && minor < MINOR))) {
        conversion_error("torch %s is too old: moontensor needs torch %d.%d or later", s, MAJOR, MINOR);
    } else if (s != NULL) {
        failed = 0;
    }
    Py_XDECREF(version);
    Py_XDECREF(text);
    return failed;
}

static int fill(PyObject *torch) {
    if (check_version(torch) < 0) return -1;
    PyObject *type = PyObject_GetAttrString(torch, "Tensor"), *nn = type ? PyObject_GetAttrString(torch, "nn") : NULL;
    PyObject *parameter = nn ? PyObject_GetAttrString(nn, "Parameter") : NULL;
    PyObject *c = parameter ? PyObject_GetAttrString(torch, "_C") : NULL;
    Py_XDECREF(nn);
    if (type == NULL || parameter == NULL || c == NULL || interned(&requires_grad_name, "requires_grad") == NULL ||
        interned(&dtype_name, "dtype") == NULL || interned(&view_name, "view") == NULL) {
        goto fail;
    }
    numpy_method = PyObject_GetAttrString(type, "numpy");
    is_neg_method = PyObject_GetAttrString(type, "is_neg");
    is_conj_method = PyObject_GetAttrString(type, "is_conj");
    from_dlpack = PyObject_GetAttrString(torch, "from_dlpack");
    empty_function = PyObject_GetAttrString(torch, "empty");
    empty_names = Py_BuildValue("(ss)", "dtype", "device");
    cpu = PyUnicode_FromString("cpu");
    if (!numpy_method || !is_neg_method || !is_conj_method || !from_dlpack || !empty_function || !empty_names || !cpu) goto fail;
    for (int d = 0; d < MOON_DTYPE_COUNT; d++) dtypes[d] = optional(torch, moon->dtype_name((moon_dtype)d));
    bump = optional(c, "_increment_version");
    api = find_api(type);
    Py_DECREF(c);
    parameter_type = (PyTypeObject *)parameter;
    tensor_type = (PyTypeObject *)type;
    return 0;
fail:
    Py_XDECREF(type);
    Py_XDECREF(parameter);
    Py_XDECREF(c);
    return -1;
}

bool torch_loaded(void) {
    if (likely(tensor_type != NULL)) return true;
    PyObject *torch = module_if_loaded(&module_name, "torch");
    if (torch == NULL) return false;
    if (fill(torch) == 0) return true;
    PyErr_Clear(); /* half imported still */
    return false;
}

int torch_load(cross *c) {
    if (likely(tensor_type != NULL)) return 0;
    PyObject *torch = import_module(c, "torch", "torch");
    int failed = torch == NULL || (tensor_type == NULL && fill(torch) < 0);
    Py_XDECREF(torch);
    return failed ? -1 : 0;
}

bool torch_known(PyObject *o) { return Py_TYPE(o) == tensor_type || Py_TYPE(o) == parameter_type; }

bool torch_exact(PyObject *o) { return torch_loaded() && (Py_TYPE(o) == tensor_type || Py_TYPE(o) == parameter_type); }

bool torch_tensor(PyObject *o) { return torch_loaded() && PyType_IsSubtype(Py_TYPE(o), tensor_type); }

/* ---- in ---- */

static PyObject *method0(PyObject *method, PyObject *o) { /* an unbound method without arguments */
    PyObject *slots[2] = {NULL, o};
    return PyObject_Vectorcall(method, slots + 1, 1 | VECTORCALL_OFFSET, NULL);
}

static int truth(PyObject *value) { /* takes it; -1: an error */
    int yes = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return yes;
}

static void hint(void) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"requires grad", "moon.from(t:detach()) shares the memory, {force = true} copies it"},
        {"conjugate bit", "t:resolve_conj() gives a tensor that can be shared, {force = true} copies"},
        {"negative bit", "t:resolve_neg() gives a tensor that can be shared, {force = true} copies"},
        {"layout tensor", "t:to_dense() gives a tensor that can be shared"},
        {"Sparse", "t:to_dense() gives a tensor that can be shared"},
        {"device type tensor", "{force = true} brings it to the CPU in a copy"},
        {"meta", "a meta tensor has no data"},
        {"unsupported ScalarType", "t:to(torch.float32) gives a tensor that can be shared"},
    };
    const char *found = NULL;
    for (size_t i = 0; s != NULL && found == NULL && i < sizeof hints / sizeof *hints; i++) {
        if (strstr(s, hints[i].word) != NULL) found = hints[i].hint;
    }
    Py_XDECREF(text);
    PyErr_Restore(type, value, trace);
    if (found != NULL) add_lua_hint(found);
}

/* A tensor that cannot be shared: .numpy() has the best texts for why. The pending error, if any, stands where it has none. */
static int complain(importer *in, PyObject *o) {
    PyObject *type, *value, *trace, *array;
    PyErr_Fetch(&type, &value, &trace);
    UNLOCKED(in->c, array = method0(numpy_method, o));
    if (array == NULL) {
        hint();
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return -1;
    }
    Py_DECREF(array);
    PyErr_Restore(type, value, trace);
    if (type == NULL) conversion_error("torch does not hand out the memory of this tensor; {force = true} copies it");
    return -1;
}

/* bfloat16 and float8 have no counterpart in NumPy: their bits have. The dtype of the bits, or MOON_DTYPE_COUNT */
static moon_dtype bits_of(PyObject *o, moon_dtype *dtype) {
    static const moon_dtype bits[][2] = {
        {MOON_BFLOAT16, MOON_UINT16}, {MOON_FLOAT8_E4M3FN, MOON_UINT8}, {MOON_FLOAT8_E5M2, MOON_UINT8}};
    PyObject *own = PyObject_GetAttr(o, dtype_name);
    moon_dtype found = MOON_DTYPE_COUNT;
    *dtype = MOON_DTYPE_COUNT;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        if (own == NULL || own != dtypes[bits[i][0]] || dtypes[bits[i][1]] == NULL) continue;
        *dtype = bits[i][0];
        found = bits[i][1];
    }
    if (own == NULL) PyErr_Clear();
    else Py_DECREF(own);
    return found;
}

static PyObject *array_of_bits(PyObject *o, moon_dtype bits) {
    int grad = truth(PyObject_GetAttr(o, requires_grad_name)); /* a bit view has none */
    if (grad != 0) return grad < 0 ? NULL : method0(numpy_method, o);
    PyObject *slots[3] = {NULL, o, dtypes[bits]};
    PyObject *view = PyObject_VectorcallMethod(view_name, slots + 1, 2 | VECTORCALL_OFFSET, NULL);
    PyObject *array = view ? method0(numpy_method, view) : NULL;
    Py_XDECREF(view);
    return array;
}

/* With the lock: .numpy() makes torch's own checks, keeps the storage from being resized, and returns an array whose base
   shares the version counter. */
static int import_locked(importer *in, PyObject *o) {
    if (unlikely(numpy_load(in->c) < 0)) return -1;
    moon_dtype dtype, bits = bits_of(o, &dtype);
    PyObject *array;
    if (likely(bits == MOON_DTYPE_COUNT)) UNLOCKED(in->c, array = method0(numpy_method, o));
    else UNLOCKED(in->c, array = array_of_bits(o, bits));
    if (unlikely(array == NULL)) {
        hint();
        return -1;
    }
    int failed = -1;
    if (likely(numpy_array(array))) failed = numpy_adopt(in, array, dtype, true);
    else conversion_error("t:numpy() returned no NumPy array");
    Py_DECREF(array);
    return failed;
}

static int is_plain(PyObject *o) { /* no autograd, no neg bit; -1: an error */
    int grad = truth(PyObject_GetAttr(o, requires_grad_name));
    if (grad != 0) return grad < 0 ? -1 : 0;
    int neg = truth(method0(is_neg_method, o));
    return neg < 0 ? -1 : !neg;
}

static int import_managed(importer *in, PyObject *o) {
    if (!in->raw) {
        int plain = is_plain(o);
        if (plain <= 0) return plain < 0 ? -1 : complain(in, o);
    }
    moon_dl_versioned *m = NULL;
    if (api->managed_tensor_from_py(o, &m) != 0 || m == NULL) return complain(in, o);
    if (m->dl_tensor.dtype.code == MOON_DL_COMPLEX && !in->raw) {
        int conj = truth(method0(is_conj_method, o));
        if (conj != 0) {
            PY_ERROR_ASIDE(m->deleter(m));
            return conj < 0 ? -1 : complain(in, o);
        }
    }
    lease *l = lease_new(NULL);
    if (l == NULL) {
        PY_ERROR_ASIDE(m->deleter(m));
        return -1;
    }
    l->v1 = m;
    if (!in->raw && !in->convert && lease_watch(l, o) < 0) {
        lease_discard(l);
        return -1;
    }
    if (likely(import_adopt(in, &m->dl_tensor, (m->flags & MOON_DL_READ_ONLY) != 0, l) == 0)) return 0;
    return in->need != 0 ? -1 : complain(in, o);
}

/* a torch without the C API, and subclasses */
static int import_by_capsule(importer *in, PyObject *o) {
    int neg;
    UNLOCKED(in->c, neg = truth(method0(is_neg_method, o)));
    if (neg != 0 && !in->raw) return neg < 0 ? -1 : complain(in, o); /* the sign would be lost */
    if (dlpack_import(in, o) == 0) return 0;
    return in->need != 0 ? -1 : complain(in, o);
}

int torch_import(importer *in, PyObject *o) {
    if (likely(in->lock)) return import_locked(in, o);
    if (likely(api != NULL && api->managed_tensor_from_py != NULL && torch_exact(o))) return import_managed(in, o);
    return import_by_capsule(in, o);
}

PyObject *torch_forced(PyObject *o) {
    static const char *const steps[] = {"detach", "cpu", "resolve_conj", "resolve_neg"};
    Py_INCREF(o);
    for (size_t i = 0; o != NULL && i < sizeof steps / sizeof *steps; i++) {
        PyObject *next = PyObject_CallMethod(o, steps[i], NULL);
        Py_DECREF(o);
        o = next;
    }
    return o;
}

/* ---- out ---- */

static PyObject *by_capsule(const moon_tensor *t) {
    PyObject *capsule = capsule_of(t, true);
    PyObject *tensor = capsule ? PyObject_CallFunctionObjArgs(from_dlpack, capsule, NULL) : NULL;
    PY_ERROR_ASIDE(Py_XDECREF(capsule));
    return tensor;
}

PyObject *torch_share(const moon_tensor *t) {
    moon_dl_versioned *m;
    if (moon->dl_export(t, MOON_DL_FOR_TORCH, &m) != MOON_OK) return conversion_error("%s", moon->message());
    void *tensor = NULL;
    if (likely(api != NULL && api->managed_tensor_to_py != NULL)) {
        /* on failure torch has not taken the struct, whatever dlpack.h says */
        if (api->managed_tensor_to_py(m, &tensor) != 0) PY_ERROR_ASIDE(m->deleter(m); tensor = NULL);
    } else {
        m->deleter(m);
        tensor = by_capsule(t);
    }
    if (likely(tensor != NULL) && t->numel > 0 && unlikely(watch_export(t->storage, (PyObject *)tensor) < 0)) {
        Py_DECREF((PyObject *)tensor);
        return NULL;
    }
    return (PyObject *)tensor;
}

static PyObject *empty_like(const moon_tensor *t) { /* row-major, in torch's own memory */
    PyObject *dtype = dtypes[t->dtype], *tensor = NULL, *sizes = PyTuple_New(t->ndim);
    if (dtype == NULL) {
        Py_XDECREF(sizes);
        return conversion_error("this torch has no %s", moon->dtype_name((moon_dtype)t->dtype));
    }
    int failed = sizes == NULL;
    for (int i = 0; !failed && i < t->ndim; i++) {
        PyObject *extent = PyLong_FromLongLong(t->shape[i]);
        failed = extent == NULL || PyTuple_SetItem(sizes, i, extent) < 0;
    }
    PyObject *slots[4] = {NULL, sizes, dtype, cpu};
    if (!failed) tensor = PyObject_Vectorcall(empty_function, slots + 1, 1 | VECTORCALL_OFFSET, empty_names);
    Py_XDECREF(sizes);
    return tensor;
}

PyObject *torch_copy(cross *c, const moon_tensor *t, moon_tensor *blank) {
    PyObject *tensor = empty_like(t);
    if (tensor == NULL || t->numel == 0) return tensor;
    importer in = {.c = c, .blank = blank, .raw = true, .dtype = MOON_DTYPE_COUNT};
    if (torch_import(&in, tensor) < 0 || copy_contents(c, blank, t) < 0) Py_CLEAR(tensor);
    moon->close(blank);
    return tensor;
}

/* ---- version counters ---- */

void torch_bump(PyObject *list) {
    if (!torch_loaded() || bump == NULL) return;
    PyObject *done = PyObject_CallFunctionObjArgs(bump, list, NULL);
    if (done == NULL) { /* one that takes no bump must not keep it from the others */
        PyErr_Clear();
        for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
            PyObject *one = PyObject_CallFunction(bump, "((O))", PyList_GetItem(list, i));
            if (one == NULL) PyErr_Clear();
            Py_XDECREF(one);
        }
    }
    Py_XDECREF(done);
}
