/* The verbs that hand native tensors to Python, and the codec. */
#include "exchange.h"
#include <string.h>

/* ---- helpers of all producers and consumers ---- */

PyObject *interned(PyObject **slot, const char *text) {
    if (unlikely(*slot == NULL)) *slot = PyUnicode_InternFromString(text);
    return *slot;
}

PyObject *module_if_loaded(PyObject **slot, const char *name) {
    return interned(slot, name) ? PyDict_GetItemWithError(PyImport_GetModuleDict(), *slot) : NULL;
}

/* Is the pending ImportError about this very module, and not about one that it needs? */
static bool is_missing(const char *name) {
    if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) return false;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *missing = PyObject_GetAttrString(value, "name");
    bool yes = missing != NULL && PyUnicode_Check(missing) && PyUnicode_CompareWithASCIIString(missing, name) == 0;
    Py_XDECREF(missing);
    PyErr_Restore(type, value, trace);
    return yes;
}

PyObject *import_module(cross *c, const char *name, const char *package) {
    PyObject *module;
    UNLOCKED(c, module = PyImport_ImportModule(name));
    if (module != NULL || !is_missing(name)) return module;
    PyErr_Clear();
    PyObject *python = PySys_GetObject("executable"); /* borrowed */
    conversion_error("%s is not installed for %S; install it: %S -m pip install %s", name, python ? python : Py_None,
                     python ? python : Py_None, package);
    return NULL;
}

enum { LARGE = 1 << 20 };

int copy_contents(cross *c, const moon_tensor *target, const moon_tensor *source) {
    thread *t = c->thread;
    moon_status status;
    if (source->numel * (int64_t)moon->dtype_size((moon_dtype)source->dtype) < LARGE) {
        status = moon->copy(target, source);
    } else { /* the Lua state stays ours: source is a value on its stack */
        t->gil = false;
        PyThreadState *ts = PyEval_SaveThread();
        status = moon->copy(target, source);
        PyEval_RestoreThread(ts);
        t->gil = true;
    }
    if (status == MOON_OK) return 0;
    conversion_error("%s", moon->message());
    return -1;
}

/* ---- x:to_torch, x:to_numpy ---- */

typedef struct consumer {
    int (*load)(cross *);
    PyObject *(*share)(const moon_tensor *);
    PyObject *(*copy)(cross *, const moon_tensor *, moon_tensor *blank);
} consumer;

static const consumer torch_consumer = {torch_load, torch_share, torch_copy};
static const consumer numpy_consumer = {numpy_load, numpy_share, numpy_copy};

static int option_copy(lua_State *L, int arg) {
    static const char *const names[] = {"copy", NULL};
    if (likely(lua_isnoneornil(L, arg))) return SHARE;
    luaL_checktype(L, arg, LUA_TTABLE);
    known_options(L, arg, names);
    lua_getfield(L, arg, "copy");
    int mode = copy_mode(L, lua_gettop(L));
    lua_pop(L, 1);
    return mode;
}

static int hand_to(lua_State *L, const consumer *k) {
    state *S = STATE(L);
    const moon_tensor *t = moon->check(L, 1);
    int mode = option_copy(L, 2);
    READY(L, S);
    moon_tensor *blank = unlikely(mode != SHARE) ? moon->push_blank(L, t->ndim) : NULL;
    cross c;
    PyObject *o = NULL;
    enter(L, S, &c);
    if (likely(k->load(&c) == 0)) {
        if (unlikely(t->storage == NULL)) conversion_error("tensor is closed"); /* a finalizer or another thread did it */
        else if (likely(mode != COPY)) o = k->share(t);
        if (unlikely(o == NULL && mode != SHARE && t->storage != NULL)) {
            PyErr_Clear();
            o = k->copy(&c, t, blank);
        }
    }
    return result_proxy(L, &c, o);
}

static int to_torch(lua_State *L) { /* x, [{copy =}] */
    return hand_to(L, &torch_consumer);
}

static int to_numpy(lua_State *L) { /* x, [{copy =}] */
    return hand_to(L, &numpy_consumer);
}

PyObject *tensor_to_python(lua_State *L, state *S, int i) {
    const moon_tensor *t = moon->test(L, i);
    cross *c = current_thread->top;
    if (t->storage == NULL) return conversion_error("tensor is closed");
    if (S->tensors == TENSORS_OWN) return tensor_object_of(t);
    if (S->tensors == TENSORS_TORCH && torch_load(c) < 0) return NULL;
    if (S->tensors != TENSORS_NUMPY && torch_loaded()) return torch_share(t);
    return numpy_load(c) < 0 ? NULL : numpy_share(t);
}

/* ---- what py.codec sets ---- */

static int set_codec(lua_State *L) { /* tensors, decode */
    static const char *const names[] = {"auto", "torch", "numpy", "moontensor", NULL};
    state *S = STATE(L);
    S->tensors = luaL_checkoption(L, 1, NULL, names);
    S->decode = lua_toboolean(L, 2);
    return 0;
}

static const char decoder_key = 0, adapter_key = 0; /* registry keys by address: functions of the Lua layer */

static int set_adapters(lua_State *L) { /* decode(object), adapt(object, mode) */
    luaL_checktype(L, 1, LUA_TFUNCTION);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &adapter_key);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &decoder_key);
    return 0;
}

bool decodes(state *S, PyObject *o) {
    return S->decode && (S->adapted || torch_tensor(o) || numpy_array(o) || is_tensor_object(o));
}

void decode_top(lua_State *L, state *S) {
    luaL_checkstack(L, 4, NULL);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &decoder_key);
    lua_insert(L, -2);
    S->decode = false; /* what the decoder itself calls gives proxies */
    int status = lua_pcall(L, 1, 1, 0);
    S->decode = true;
    if (status != LUA_OK) lua_error(L);
}

static int use_adapters(lua_State *L) { /* there are some besides the built-in ones */
    STATE(L)->adapted = true;
    return 0;
}

int push_adapter(lua_State *L) { return lua_rawgetp(L, LUA_REGISTRYINDEX, &adapter_key); }

/* ---- x:to_dlpack, x:memoryview ---- */

static bool option_versioned(lua_State *L, int arg) { /* the options at arg */
    lua_Integer major = 1;
    switch (lua_getfield(L, arg, "max_version")) {
    case LUA_TNIL: break;
    case LUA_TBOOLEAN: major = lua_toboolean(L, -1); break;
    case LUA_TNUMBER: major = (lua_Integer)lua_tonumber(L, -1); break;
    case LUA_TTABLE:
        if (lua_geti(L, -1, 1) != LUA_TNUMBER) luaL_error(L, "bad option 'max_version' ({major, minor} expected)");
        major = (lua_Integer)lua_tonumber(L, -1);
        lua_pop(L, 1);
        break;
    default: luaL_error(L, "bad option 'max_version' ({major, minor} or false expected, got %s)", luaL_typename(L, -1));
    }
    lua_pop(L, 1);
    return major >= 1;
}

static int to_dlpack(lua_State *L) { /* x, [{max_version =, stream =}] */
    static const char *const names[] = {"max_version", "stream", NULL};
    state *S = STATE(L);
    bool versioned = true;
    moon->check(L, 1);
    if (!lua_isnoneornil(L, 2)) {
        luaL_checktype(L, 2, LUA_TTABLE);
        known_options(L, 2, names);
        versioned = option_versioned(L, 2);
        if (lua_getfield(L, 2, "stream") != LUA_TNIL) luaL_error(L, "bad option 'stream' (a tensor on the CPU has none)");
        lua_pop(L, 1);
    }
    READY(L, S);
    const moon_tensor *t = moon->check(L, 1);
    cross c;
    enter(L, S, &c);
    return result_proxy(L, &c, capsule_of(t, versioned));
}

static PyObject *memoryview_of(cross *c, const moon_tensor *t) {
    if (numpy_load(c) < 0) return NULL;
    if (t->storage == NULL) return conversion_error("tensor is closed");
    if (!moon->is_contiguous(t)) {
        return conversion_error("the tensor is not C-contiguous, and a memoryview of it would be of little use; use "
                                "x:contiguous():memoryview()");
    }
    PyObject *array = numpy_share(t), *view = array ? PyMemoryView_FromObject(array) : NULL;
    Py_XDECREF(array);
    return view;
}

static int to_memoryview(lua_State *L) { /* x */
    state *S = STATE(L);
    READY(L, S);
    const moon_tensor *t = moon->check(L, 1);
    cross c;
    enter(L, S, &c);
    return result_proxy(L, &c, memoryview_of(&c, t));
}

/* ---- moon.shares ---- */

/* Upvalue 3 is the native function; Python objects among the arguments become native views of their memory first. */
static int shares(lua_State *L) { /* a, b */
    moon_tensor *views[2] = {NULL, NULL};
    luaL_checkany(L, 2);
    lua_settop(L, 2);
    for (int i = 1; i <= 2; i++) {
        if (to_proxy(L, i) != NULL) {
            views[i - 1] = push_import(L, i, true);
            lua_replace(L, i);
        } else if (moon->test(L, i) == NULL) {
            return luaL_typeerror(L, i, "tensor or python object");
        }
    }
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_insert(L, 1);
    int status = lua_pcall(L, 2, 1, 0);
    for (int i = 0; i < 2; i++) {
        if (views[i] != NULL) moon->close(views[i]);
    }
    if (status != LUA_OK) return raise_as_ours(L);
    return 1;
}

/* ---- setting up ---- */

int init_exchange(void) { return init_tensor_type(); /* torch and NumPy are looked up at first use */ }

/* Replace the function `name` of core's module, which becomes the third upvalue. */
static void wrap(lua_State *L, state *S, int module, const char *name, lua_CFunction f) {
    push_site(L, S);
    lua_getfield(L, module, name);
    lua_pushcclosure(L, f, 3);
    lua_setfield(L, module, name);
}

void open_exchange(lua_State *L, state *S) {
    static const luaL_Reg methods[] = {
        {"to_torch", to_torch}, {"to_numpy", to_numpy}, {"to_dlpack", to_dlpack}, {"memoryview", to_memoryview}, {NULL, NULL}};
    static const luaL_Reg codec[] = {
        {"_set_codec", set_codec}, {"_set_adapters", set_adapters}, {"_use_adapters", use_adapters}, {NULL, NULL}};
    set_functions(L, S, codec); /* into the table on top */
    moon->push_methods(L);
    set_functions(L, S, methods);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, "moontensor.core");
    wrap(L, S, lua_gettop(L), "from", moon_from);
    wrap(L, S, lua_gettop(L), "shares", shares);
    lua_pop(L, 3);
}
