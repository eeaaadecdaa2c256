/* Leases: what a storage holds of Python, let go on any thread, and the version counters that our writes must move.

   Hooks run anywhere, without the GIL, and so only push on two lock-free lists, which the next crossing empties. */
#include "exchange.h"
#include <stdlib.h>
#include <string.h>

_Atomic(void *) written_list, released_list;

static PyObject *base_name;

static void push(_Atomic(void *) *list, lease *l, lease **next) {
    void *head = atomic_load_explicit(list, memory_order_relaxed);
    do {
        *next = (lease *)head;
    } while (!atomic_compare_exchange_weak_explicit(list, &head, l, memory_order_release, memory_order_relaxed));
}

static void drop(moon_hook *hook) {
    if (is_shut) return; /* the interpreter is past its exit work: what Python holds stays where it is */
    lease *l = (lease *)hook;
    atomic_fetch_add_explicit(&live_queued, 1, memory_order_relaxed);
    push(&released_list, l, &l->next_released);
}

static void written(moon_hook *hook) {
    lease *l = (lease *)hook;
    if (atomic_load_explicit(&l->dirty, memory_order_relaxed) || atomic_exchange_explicit(&l->dirty, true, memory_order_relaxed))
        return;
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    push(&written_list, l, &l->next_written);
}

static lease *new_lease(void) {
    lease *l = (lease *)calloc(1, sizeof *l);
    if (l == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    l->hook.drop = drop;
    atomic_init(&l->refs, 1);
    l->weak = l->inline_weak;
    l->room = sizeof l->inline_weak / sizeof *l->inline_weak;
    return l;
}

lease *lease_new(PyObject *object) {
    lease *l = new_lease();
    if (l == NULL) Py_XDECREF(object);
    else l->object = object;
    return l;
}

/* Foreign deleters may be Python code, and leave an error or meet one. */
static void let_go(lease *l) {
    if (l->v1 != NULL && l->v1->deleter != NULL) l->v1->deleter(l->v1);
    if (l->v0 != NULL && l->v0->deleter != NULL) l->v0->deleter(l->v0);
    if (PyErr_Occurred()) PyErr_WriteUnraisable(NULL);
    Py_XDECREF(l->object);
    for (size_t i = 0; i < l->nweak; i++) Py_DECREF(l->weak[i]);
    if (l->weak != l->inline_weak) free(l->weak);
    free(l);
}

static void decref(lease *l) {
    if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1) PY_ERROR_ASIDE(let_go(l));
}

void lease_discard(lease *l) { decref(l); }

void drop_released(void) {
    lease *l = (lease *)atomic_exchange_explicit(&released_list, NULL, memory_order_acquire);
    while (l != NULL) {
        lease *next = l->next_released;
        atomic_fetch_sub_explicit(&live_queued, 1, memory_order_relaxed);
        decref(l);
        l = next;
    }
}

/* ---- version counters ---- */

static bool is_dead(PyObject *weak) { return PyWeakref_GetObject(weak) == Py_None; }

static void prune(lease *l) {
    size_t n = 0;
    for (size_t i = 0; i < l->nweak; i++) {
        if (is_dead(l->weak[i])) Py_DECREF(l->weak[i]); /* a weakref: runs no code */
        else l->weak[n++] = l->weak[i];
    }
    l->nweak = n;
}

static int grow(lease *l) {
    prune(l);
    if (2 * l->nweak < l->room) return 0;
    size_t room = 2 * l->room;
    PyObject **p = (PyObject **)malloc(room * sizeof *p);
    if (p == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(p, l->weak, l->nweak * sizeof *p);
    if (l->weak != l->inline_weak) free(l->weak);
    l->weak = p;
    l->room = room;
    return 0;
}

void lease_bump_base(lease *l) {
    l->torch_base = true;
    l->hook.written = written;
}

int lease_watch(lease *l, PyObject *tensor) {
    PyObject *weak = PyWeakref_NewRef(tensor, NULL);
    if (weak == NULL) return -1;
    PyObject_GC_UnTrack(weak); /* in no cycle, having no callback: Python's collector need not visit thousands of them */
    if (l->nweak == l->room && grow(l) < 0) {
        Py_DECREF(weak);
        return -1;
    }
    l->weak[l->nweak++] = weak;
    l->hook.written = written;
    return 0;
}

int watch_export(moon_storage *storage, PyObject *tensor) {
    moon_hook *hook = moon->watch(storage);
    if (hook == NULL) {
        lease *l = new_lease();
        if (l == NULL) return -1;
        l->hook.written = written;
        if (moon->set_watch(storage, &l->hook)) hook = &l->hook;
        else lease_discard(l);
        if (hook == NULL) hook = moon->watch(storage);
    }
    /* a watcher that is not ours cannot be told of tensors; then stale backward passes go unnoticed */
    return hook->written == written ? lease_watch((lease *)hook, tensor) : 0;
}

/* the live tensors that see the memory; by index, since an allocation may run code that changes the list */
static void collect_tensors(lease *l, PyObject *list) {
    if (l->torch_base && interned(&base_name, "base") != NULL) {
        PyObject *base = PyObject_GetAttr(l->object, base_name);
        if (base != NULL && base != Py_None) PyList_Append(list, base);
        Py_XDECREF(base);
    }
    for (size_t i = 0; i < l->nweak; i++) {
        PyObject *tensor = PyWeakref_GetObject(l->weak[i]);
        Py_XINCREF(tensor);
        if (tensor != NULL && tensor != Py_None) PyList_Append(list, tensor);
        Py_XDECREF(tensor);
    }
}

static void bump_written(void) {
    lease *l = (lease *)atomic_exchange_explicit(&written_list, NULL, memory_order_acquire);
    PyObject *list = PyList_New(0);
    while (l != NULL) {
        lease *next = l->next_written;
        /* cleared first: a write from here on is a new one */
        atomic_store_explicit(&l->dirty, false, memory_order_release);
        if (list != NULL) collect_tensors(l, list);
        decref(l);
        l = next;
    }
    if (list != NULL && PyList_Size(list) > 0) torch_bump(list);
    Py_XDECREF(list);
    PyErr_Clear();
}

void bump_versions(void) { PY_ERROR_ASIDE(bump_written()); }
