/* DLPack capsules, both ways. The name that a capsule bears says which struct it holds, never what was asked for. */
#include "exchange.h"

static const char v1_name[] = "dltensor_versioned", v1_used[] = "used_dltensor_versioned";
static const char v0_name[] = "dltensor", v0_used[] = "used_dltensor";

bool is_dlpack_capsule(PyObject *o) {
    return PyCapsule_IsValid(o, v1_name) || PyCapsule_IsValid(o, v0_name) || PyCapsule_IsValid(o, v1_used) ||
           PyCapsule_IsValid(o, v0_used);
}

/* ---- in ---- */

/* From the new name on, what the capsule held is the lease's to delete. */
static lease *take(PyObject *capsule) {
    bool versioned = PyCapsule_IsValid(capsule, v1_name);
    if (!versioned && !PyCapsule_IsValid(capsule, v0_name)) {
        if (PyCapsule_IsValid(capsule, v1_used) || PyCapsule_IsValid(capsule, v0_used)) {
            conversion_error("a DLPack capsule can be consumed only once, and this one has been");
        } else {
            conversion_error("__dlpack__ returned something that is no DLPack capsule");
        }
        return NULL;
    }
    lease *l = lease_new(NULL);
    if (l == NULL) return NULL;
    void *held = PyCapsule_GetPointer(capsule, versioned ? v1_name : v0_name);
    if (held == NULL || PyCapsule_SetName(capsule, versioned ? v1_used : v0_used) < 0) {
        lease_discard(l);
        return NULL;
    }
    if (versioned) l->v1 = (moon_dl_versioned *)held;
    else l->v0 = (moon_dl_managed *)held;
    return l;
}

/* The dimensions of what a capsule holds, without consuming it; -1: not readable as one of our structs. */
static int capsule_ndim(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, v0_name)) {
        return ((moon_dl_managed *)PyCapsule_GetPointer(capsule, v0_name))->dl_tensor.ndim;
    }
    if (!PyCapsule_IsValid(capsule, v1_name)) return -1;
    moon_dl_versioned *m = (moon_dl_versioned *)PyCapsule_GetPointer(capsule, v1_name);
    return m->version.major == MOON_DL_MAJOR ? m->dl_tensor.ndim : -1;
}

int capsule_import(importer *in, PyObject *capsule) {
    int ndim = capsule_ndim(capsule);
    if (unlikely(ndim > moon->capacity(in->blank) && ndim <= MOON_MAXDIM)) {
        Py_INCREF(capsule);
        in->capsule = capsule;
        in->need = ndim;
        return -1;
    }
    lease *l = take(capsule);
    if (l == NULL) return -1;
    if (l->v0 != NULL) return import_adopt(in, &l->v0->dl_tensor, false, l);
    if (l->v1->version.major != MOON_DL_MAJOR) {
        uint32_t major = l->v1->version.major, minor = l->v1->version.minor;
        lease_discard(l);
        conversion_error("DLPack version %u.%u is not supported, only 1.x is", major, minor);
        return -1;
    }
    return import_adopt(in, &l->v1->dl_tensor, (l->v1->flags & MOON_DL_READ_ONLY) != 0, l);
}

/* Python code runs in both calls of the protocol. */
static PyObject *call_lent(importer *in, PyObject *callee, PyObject *const *args, size_t n, PyObject *names) {
    PyObject *value;
    UNLOCKED(in->c, value = PyObject_Vectorcall(callee, args, n | VECTORCALL_OFFSET, names));
    return value;
}

/* Refuse what is not in host memory before anything is exported. */
static int check_device(importer *in, PyObject *o) {
    static PyObject *name;
    if (interned(&name, "__dlpack_device__") == NULL) return -1;
    PyObject *slots[2] = {NULL, o}, *method = PyObject_GetAttr(o, name);
    if (method == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
        PyErr_Clear(); /* older producers lack it; the struct tells the device, too */
        return 0;
    }
    PyObject *device = call_lent(in, method, slots + 1, 0, NULL);
    Py_DECREF(method);
    int type = 0, id = 0, ok = device != NULL && PyTuple_Check(device) && PyTuple_Size(device) == 2;
    if (ok) {
        type = (int)PyLong_AsLong(PyTuple_GetItem(device, 0));
        id = (int)PyLong_AsLong(PyTuple_GetItem(device, 1));
        if (PyErr_Occurred()) {
            PyErr_Clear();
            ok = 0;
        }
    } else if (device != NULL) {
        PyErr_Clear();
    }
    int failed = device == NULL;
    Py_XDECREF(device);
    if (failed) return -1;
    if (!ok) {
        conversion_error("__dlpack_device__ did not return (type, id)");
        return -1;
    }
    if (type == MOON_DL_CPU || type == MOON_DL_CUDA_HOST || type == MOON_DL_ROCM_HOST) return 0;
    conversion_error(
        "the object is on a device (DLPack type %d, id %d), not in host memory; bring it to the CPU first, for torch "
        "with t:cpu() or {force = true}",
        type, id);
    return -1;
}

static PyObject *export_capsule(importer *in, PyObject *o) {
    static PyObject *dlpack_name, *names, *version;
    if (interned(&dlpack_name, "__dlpack__") == NULL) return NULL;
    if (names == NULL) names = Py_BuildValue("(s)", "max_version");
    if (version == NULL) version = Py_BuildValue("(ii)", MOON_DL_MAJOR, MOON_DL_MINOR);
    if (names == NULL || version == NULL) return NULL;
    PyObject *method = PyObject_GetAttr(o, dlpack_name);
    if (method == NULL) return NULL;
    PyObject *slots[2] = {NULL, version};
    PyObject *capsule = call_lent(in, method, slots + 1, 0, names);
    if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) { /* before versions */
        PyErr_Clear();
        capsule = call_lent(in, method, slots + 1, 0, NULL);
    }
    Py_DECREF(method);
    return capsule;
}

int dlpack_import(importer *in, PyObject *o) {
    if (check_device(in, o) < 0) return -1;
    PyObject *capsule = export_capsule(in, o);
    if (capsule == NULL) return -1;
    int failed = capsule_import(in, capsule);
    PY_ERROR_ASIDE(Py_DECREF(capsule)); /* a refused one deletes its tensor here */
    return failed;
}

/* ---- out ---- */

/* A capsule that nobody consumed. Our deleters leave Python alone, but a pending error must not reach the name check. */
static void destroy_v1(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, v1_name)) return;
    moon_dl_versioned *m = (moon_dl_versioned *)PyCapsule_GetPointer(capsule, v1_name);
    if (m != NULL && m->deleter != NULL) m->deleter(m);
}

static void destroy_v0(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, v0_name)) return;
    moon_dl_managed *m = (moon_dl_managed *)PyCapsule_GetPointer(capsule, v0_name);
    if (m != NULL && m->deleter != NULL) m->deleter(m);
}

static void destroy(PyObject *capsule) { PY_ERROR_ASIDE(destroy_v1(capsule); destroy_v0(capsule)); }

PyObject *capsule_of(const moon_tensor *t, bool versioned) {
    /* Whoever consumes it may be torch, which aborts the process on a negative stride. The read-only flag is part of the
       versioned struct, and consumers are told; the older one has no word for it. */
    for (int i = 0; i < t->ndim && t->numel > 0; i++) {
        if (t->strides[i] >= 0 || t->shape[i] == 1) continue;
        return conversion_error("negative stride in dim %d has no place in DLPack, since torch aborts on one; use "
                                "x:contiguous() or {copy = true}",
                                i + 1);
    }
    if (!versioned) {
        moon_dl_managed *m;
        if (t->readonly)
            return conversion_error("an unversioned DLPack capsule cannot say that a tensor is read-only; leave out "
                                    "max_version, or export x:clone()");
        if (moon->dl_export_v0(t, MOON_DL_FOR_NUMPY, &m) != MOON_OK) return conversion_error("%s", moon->message());
        PyObject *capsule = PyCapsule_New(m, v0_name, destroy);
        if (capsule == NULL) m->deleter(m);
        return capsule;
    }
    moon_dl_versioned *m;
    if (moon->dl_export(t, MOON_DL_FOR_NUMPY, &m) != MOON_OK) return conversion_error("%s", moon->message());
    PyObject *capsule = PyCapsule_New(m, v1_name, destroy);
    if (capsule == NULL) m->deleter(m);
    return capsule;
}
