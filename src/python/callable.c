/* Lua values that Python holds: functions as callables, others as moontensor.Opaque.

   A function is a C callable (LuaFunction) behind a thin real Python function, so that it binds as a method and that
   inspect.signature, copy.deepcopy, functools and torch treat it as one. */
#include "bridge.h"
#include <stddef.h>
#include <stdio.h>

PyTypeObject *LuaFunctionType, *OpaqueType;

#define HAVE_VECTORCALL (1UL << 11)
#define MAX_FAST_ARGS 8

typedef struct call {
    luaref *function;
    PyObject *const *args;
    Py_ssize_t n;
    PyObject *value; /* new reference */
    thread *thread;
    bool released; /* the GIL is let go while Lua runs */
} call;

static void gil_drop(call *k) {
    if (!k->released) return;
    k->thread->gil = false;
    k->thread->ts = PyEval_SaveThread();
}

static void gil_back(call *k) {
    if (!k->released || k->thread->gil) return;
    PyEval_RestoreThread(k->thread->ts);
    k->thread->gil = true;
}

/* results of the Lua function, from index first to the top: None, the value, or a tuple */
static PyObject *results_to_python(lua_State *L, state *S, int first) {
    int n = lua_gettop(L) - first + 1;
    if (n <= 0) Py_RETURN_NONE;
    if (n == 1) return to_python(L, S, first);
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple != NULL && i < n; i++) {
        PyObject *item = to_python(L, S, first + i);
        if (item == NULL || PyTuple_SetItem(tuple, i, item) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

static int call_body(lua_State *L) { /* call * */
    call *k = (call *)lua_touserdata(L, 1);
    state *S = k->function->S;
    luaL_checkstack(L, (int)k->n + 8, "too many arguments");
    lua_rawgeti(L, LUA_REGISTRYINDEX, k->function->ref);
    for (Py_ssize_t i = 0; i < k->n; i++) push_python(L, S, k->args[i]);
    gil_drop(k);
    lua_call(L, (int)k->n, LUA_MULTRET);
    gil_back(k);
    k->value = results_to_python(L, S, 2);
    return 0;
}

/* Scalars need no allocation in Lua, so only the call itself is protected. -1: some argument is no scalar, nothing is done. */
static int call_scalars(lua_State *L, call *k, int base) {
    if (k->n > MAX_FAST_ARGS) return -1;
    lua_pushcfunction(L, note_traceback);
    lua_rawgeti(L, LUA_REGISTRYINDEX, k->function->ref);
    for (Py_ssize_t i = 0; i < k->n; i++) {
        if (unlikely(!push_scalar(L, k->args[i]))) {
            lua_settop(L, base);
            return -1;
        }
    }
    gil_drop(k);
    int status = lua_pcall(L, (int)k->n, LUA_MULTRET, base + 1);
    gil_back(k);
    if (likely(status == LUA_OK)) k->value = results_to_python(L, k->function->S, base + 2);
    return status;
}

/* the innermost Lua stack of S that this thread is in, or NULL on a thread foreign to it */
static lua_State *current_stack(thread *t, state *S) {
    for (cross *c = t->top; c != NULL; c = c->prev) {
        if (c->S == S) return c->L;
    }
    return NULL;
}

static PyObject *call_on(lua_State *L, call *k) {
    state *S = k->function->S;
    if (S->nburied != 0 || S->nunref != 0) drain(S, L);
    if (!lua_checkstack(L, MAX_FAST_ARGS + 8)) return PyErr_NoMemory();
    int base = lua_gettop(L), status = call_scalars(L, k, base);
    if (status < 0) {
        lua_pushcfunction(L, note_traceback);
        lua_pushcfunction(L, call_body);
        lua_pushlightuserdata(L, k);
        status = lua_pcall(L, 1, 0, base + 1);
        gil_back(k);
    }
    if (status != LUA_OK) {
        Py_CLEAR(k->value);
        set_lua_error(L, S);
    }
    lua_settop(L, base);
    return k->value;
}

static PyObject *refuse(state *S) {
    PyErr_SetString(LuaError, S->stranded ? "this process was forked while another thread ran the Lua state; fork while that "
                                            "waits in Python, or from it"
                              : S->dead || S->closing ? "state closed"
                                                      : "no Lua stack is free for this thread");
    return NULL;
}

static PyObject *call_lua(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    luaref *f = (luaref *)self;
    state *S = f->S;
    Py_ssize_t n = (Py_ssize_t)(nargsf & ~VECTORCALL_OFFSET);
    if (kwnames != NULL && PyTuple_Size(kwnames) > 0) {
        PyErr_SetString(PyExc_TypeError, "a Lua function takes no keyword arguments; make it with py.kwfunction");
        return NULL;
    }
    thread *t = this_thread();
    lua_State *L = current_stack(t, S);
    if (unlikely(S->dead || (S->closing && L == NULL))) return refuse(S);
    PyThreadState *ts = t->ts;
    bool gil = t->gil, ours = S->holder == t;                  /* ours: recursion from a spot that was not parked */
    if (unlikely(t->top == NULL)) t->ts = PyThreadState_Get(); /* else the one that its crossing entered with */
    t->gil = true;
    if (ts == NULL) t->foreign = true;
    PyObject *value = NULL;
    int got = ours ? 1 : acquire_state(S, t, L == NULL ? S->callback_timeout : -1);
    if (got <= 0) {
        if (got < 0) refuse(S);
        else
            PyErr_Format(PyExc_TimeoutError,
                         "the thread that runs this Lua state did not call into Python within %d s, so another thread "
                         "could not call a Lua function (py.init{callback_timeout = ...})",
                         (int)S->callback_timeout);
        t->ts = ts;
        t->gil = gil;
        return NULL;
    }
    int ref = 0;
    bool borrowed = L == NULL;
    if (borrowed) {
        L = borrow_coroutine(S, &ref);
        S->borrowers++;
    }
    if (L != NULL) {
        call k = {.function = f, .args = args, .n = n, .thread = t, .released = t->hold == 0};
        Py_INCREF(self);
        value = call_on(L, &k);
        if (borrowed) return_coroutine(S, L, ref);
        Py_DECREF(self);
    } else {
        refuse(S);
    }
    if (borrowed) S->borrowers--;
    if (!ours) lend(S);
    t->ts = ts;
    t->gil = gil;
    return value;
}

static PyObject *call_slow(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "a Lua function takes no keyword arguments; make it with py.kwfunction");
        return NULL;
    }
    Py_ssize_t n = PyTuple_Size(args);
    PyObject *fast[MAX_FAST_ARGS], **items = fast;
    if (n > MAX_FAST_ARGS) {
        items = (PyObject **)PyMem_Malloc((size_t)n * sizeof *items);
        if (items == NULL) return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++) items[i] = PyTuple_GetItem(args, i);
    PyObject *value = call_lua(self, items, (size_t)n, NULL);
    if (items != fast) PyMem_Free(items);
    return value;
}

/* ---- lifetime ---- */

PyObject *new_luaref(lua_State *L, state *S, PyTypeObject *type, int i) {
    lua_pushvalue(L, i);
    int ref = luaL_ref(L, LUA_REGISTRYINDEX);
    luaref *r = PyObject_New(luaref, type);
    if (r == NULL) {
        luaL_unref(L, LUA_REGISTRYINDEX, ref);
        return NULL;
    }
    r->vectorcall = call_lua;
    r->S = S;
    r->ref = ref;
    S->refs++;
    atomic_fetch_add_explicit(&live_callables, 1, memory_order_relaxed);
    return (PyObject *)r;
}

/* Any thread, with the GIL; never enters Lua. */
static void luaref_dealloc(PyObject *self) {
    luaref *r = (luaref *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (!r->S->dead) queue_unref(r->S, r->ref);
    state_decref(r->S);
    atomic_fetch_sub_explicit(&live_callables, 1, memory_order_relaxed);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *no_pickle(PyObject *self, PyObject *unused) {
    (void)unused;
    (void)self;
    PyErr_SetString(PyExc_TypeError, "cannot pickle a Lua value: it lives in one Lua state of one process");
    return NULL;
}

static PyObject *same_object(PyObject *self, PyObject *unused) { /* copies of a Lua value are the value */
    (void)unused;
    Py_INCREF(self);
    return self;
}

static PyMethodDef luaref_methods[] = {
    {"__reduce__", no_pickle, METH_NOARGS, NULL},
    {"__copy__", same_object, METH_NOARGS, NULL},
    {"__deepcopy__", same_object, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* structmember.h is outside the limited API; these are its ABI */
typedef struct member_def {
    const char *name;
    int type;
    Py_ssize_t offset;
    int flags;
    const char *doc;
} member_def;
enum { T_PYSSIZET_ = 19, READONLY_ = 1 };
static member_def vectorcall_member[] = {{"__vectorcalloffset__", T_PYSSIZET_, offsetof(luaref, vectorcall), READONLY_, NULL},
                                         {NULL, 0, 0, 0, NULL}};

static PyType_Slot function_slots[] = {
    {Py_tp_call, (void *)call_slow},
    {Py_tp_dealloc, (void *)luaref_dealloc},
    {Py_tp_members, vectorcall_member},
    {Py_tp_methods, luaref_methods},
    {Py_tp_doc, (void *)"A Lua function, callable from Python."},
    {0, NULL},
};
static PyType_Spec function_spec = {"moontensor.LuaFunction", sizeof(luaref), 0, Py_TPFLAGS_DEFAULT | HAVE_VECTORCALL,
                                    function_slots};

static PyType_Slot opaque_slots[] = {
    {Py_tp_dealloc, (void *)luaref_dealloc},
    {Py_tp_methods, luaref_methods},
    {Py_tp_doc, (void *)"A Lua value that Python passes around untouched."},
    {0, NULL},
};
static PyType_Spec opaque_spec = {"moontensor.Opaque", sizeof(luaref), 0, Py_TPFLAGS_DEFAULT, opaque_slots};

/* ---- the Python function around it ---- */

static PyObject *factories; /* parameter names, "x, y" -> make(c), which returns the function */
static PyTypeObject *function_type;

/* The parameters of the Lua function on top of the stack, as Python would name them; false: vararg, C, or too many. */
static bool parameters(lua_State *L, char *text, size_t size) {
    lua_Debug ar;
    lua_pushvalue(L, -1);
    if (!lua_getinfo(L, ">u", &ar) || ar.isvararg || ar.nparams > 12) return false;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 1; i <= ar.nparams; i++) {
        const char *name = lua_getlocal(L, NULL, i);
        char fallback[16];
        snprintf(fallback, sizeof fallback, "arg%d", i);
        if (name == NULL || *name == '(') name = fallback;
        int n = snprintf(text + used, size - used, "%s%s", i > 1 ? "," : "", name);
        if (n < 0 || (size_t)n >= size - used) return false;
        used += (size_t)n;
    }
    return true;
}

int init_callables(PyObject *module) {
    LuaFunctionType = (PyTypeObject *)PyType_FromSpec(&function_spec);
    OpaqueType = (PyTypeObject *)PyType_FromSpec(&opaque_spec);
    factories = PyDict_New();
    if (LuaFunctionType == NULL || OpaqueType == NULL || factories == NULL) return -1;
    if (PyModule_AddObjectRef(module, "LuaFunction", (PyObject *)LuaFunctionType) < 0) return -1;
    return PyModule_AddObjectRef(module, "Opaque", (PyObject *)OpaqueType);
}

/* borrowed; names "*": any arguments */
static PyObject *factory(const char *names) {
    static PyObject *make_factory;
    PyObject *known = PyDict_GetItemString(factories, names);
    if (known != NULL) return known;
    if (make_factory == NULL) {
        PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "moontensor");
        make_factory = module ? PyObject_GetAttrString(module, "_make_wrapper") : NULL;
        if (make_factory == NULL) return NULL;
    }
    PyObject *made = PyObject_CallFunction(make_factory, "s", names);
    int failed = made == NULL || PyDict_SetItemString(factories, names, made) < 0;
    Py_XDECREF(made); /* the dict holds it */
    return failed ? NULL : made;
}

PyObject *wrap_function(lua_State *L, PyObject *luafunction) {
    char names[256];
    PyObject *make = factory(parameters(L, names, sizeof names) ? names : "*");
    PyObject *f = make ? PyObject_CallFunctionObjArgs(make, luafunction, NULL) : NULL;
    Py_DECREF(luafunction);
    if (f != NULL && function_type == NULL) function_type = Py_TYPE(f);
    return f;
}

/* the LuaFunction in the one cell of a wrapper's closure; borrowed from the function */
static luaref *unwrap(PyObject *function) {
    static PyObject *names[2];
    for (int i = 0; i < 2; i++) {
        static const char *const text[] = {"__closure__", "cell_contents"};
        if (names[i] == NULL) names[i] = PyUnicode_InternFromString(text[i]);
        if (names[i] == NULL) return NULL;
    }
    PyObject *closure = PyObject_GetAttr(function, names[0]);
    bool one = closure != NULL && PyTuple_Check(closure) && PyTuple_Size(closure) == 1;
    PyObject *inner = one ? PyObject_GetAttr(PyTuple_GetItem(closure, 0), names[1]) : NULL;
    bool ours = inner != NULL && Py_TYPE(inner) == LuaFunctionType;
    Py_XDECREF(inner); /* the cell holds it */
    Py_XDECREF(closure);
    return ours ? (luaref *)inner : NULL;
}

luaref *find_luaref(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (type == LuaFunctionType || type == OpaqueType) return (luaref *)o;
    if (likely(type != function_type)) return NULL;
    luaref *r = unwrap(o);
    if (PyErr_Occurred()) PyErr_Clear();
    return r;
}
