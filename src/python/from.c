/* moon.from: which road an object takes, and what the options make of the view that it gives. */
#include "exchange.h"
#include <string.h>

/* ---- roads ---- */

int import_adopt(importer *in, const moon_dl_tensor *dl, bool readonly, lease *owner) {
    if (dl->ndim > moon->capacity(in->blank) && dl->ndim <= MOON_MAXDIM) {
        in->need = dl->ndim;
        lease_discard(owner);
        return -1;
    }
    if (likely(moon->adopt(in->blank, dl, readonly || in->readonly, &owner->hook) == MOON_OK)) return 0;
    lease_discard(owner);
    conversion_error("%s", moon->message());
    return -1;
}

static bool has(PyObject *o, const char *name) { return PyObject_HasAttrString(o, name); }

static int import_array(importer *in, PyObject *o, moon_dtype dtype) {
    if (numpy_load(in->c) < 0) return -1;
    PyObject *array;
    UNLOCKED(in->c, array = numpy_as_array(o, dtype));
    if (array == NULL) return -1;
    in->transient = true;
    int failed = numpy_import(in, array);
    Py_DECREF(array);
    return failed;
}

/* written in Python: the prelude's _check_interface */
static int check_interface(importer *in, PyObject *o) {
    static PyObject *module_name;
    PyObject *module = module_if_loaded(&module_name, "moontensor"), *done = NULL;
    PyObject *check = module ? PyObject_GetAttrString(module, "_check_interface") : NULL;
    if (check != NULL) UNLOCKED(in->c, done = PyObject_CallFunctionObjArgs(check, o, NULL));
    Py_XDECREF(check);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* No producer. A dtype says what a list or any other iterable of numbers should become; {copy = true} lets NumPy read it. */
static int import_other(importer *in, PyObject *o) {
    bool text = PyUnicode_Check(o);
    if (!text && PySequence_Check(o) && in->dtype != MOON_DTYPE_COUNT) return import_array(in, o, in->dtype);
    bool array = has(o, "__array__"), interface = has(o, "__array_interface__");
    if (in->convert && !array && interface && check_interface(in, o) < 0) return -1;
    if (in->convert && (array || interface)) return import_array(in, o, MOON_DTYPE_COUNT);
    const char *way_out = "moon.from takes torch tensors, NumPy arrays, and objects with __dlpack__ or the buffer protocol";
    if (array || interface) way_out = "its data can only be copied: use {copy = true}";
    else if (text) way_out = "encode text first";
    else if (PySequence_Check(o)) way_out = "give a dtype to have its numbers copied: moon.from(list, {dtype = \"float64\"})";
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    if (name == NULL) return -1;
    conversion_error("'%U' object does not export a buffer and has no adapter; %s", name, way_out);
    Py_DECREF(name);
    return -1;
}

int import_object(importer *in, PyObject *o) {
    if (torch_exact(o)) return torch_import(in, o);
    if (numpy_array(o)) return numpy_import(in, o);
    if (torch_tensor(o)) return torch_import(in, o);
    if (is_tensor_object(o)) return tensor_object_import(in, o);
    if (is_dlpack_capsule(o)) return capsule_import(in, o);
    if (has(o, "__dlpack__") && !PyType_Check(o)) return dlpack_import(in, o);
    if (PyObject_CheckBuffer(o)) return buffer_import(in, o);
    return import_other(in, o);
}

int import_forced(importer *in, PyObject *o) {
    in->convert = true;
    in->lock = false;
    in->transient = true;
    if (!torch_tensor(o)) return import_object(in, o);
    PyObject *plain;
    UNLOCKED(in->c, plain = torch_forced(o));
    if (plain == NULL) return -1;
    int failed = import_object(in, plain);
    Py_DECREF(plain);
    return failed;
}

/* ---- options ---- */

typedef struct from_options {
    int copy; /* SHARE, COPY, AUTO */
    bool force, lock, raw;
    int readonly;     /* -1: not given */
    moon_dtype dtype; /* MOON_DTYPE_COUNT: not given */
} from_options;

static const from_options no_options = {.copy = SHARE, .lock = true, .readonly = -1, .dtype = MOON_DTYPE_COUNT};

static int unknown_option(lua_State *L, int table, const char *key, const char *const *names) {
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (const char *const *name = names; *name != NULL; name++) {
        if (name != names) luaL_addstring(&b, ", ");
        luaL_addstring(&b, *name);
    }
    luaL_pushresult(&b);
    return luaL_argerror(L, table, lua_pushfstring(L, "unknown option '%s'; the options are %s", key, lua_tostring(L, -1)));
}

void known_options(lua_State *L, int table, const char *const *names) {
    table = lua_absindex(L, table);
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) luaL_argerror(L, table, "option names are strings");
        const char *key = lua_tostring(L, -2);
        const char *const *name = names;
        while (*name != NULL && strcmp(*name, key) != 0) name++;
        if (*name == NULL) unknown_option(L, table, key, names);
    }
}

int copy_mode(lua_State *L, int index) {
    switch (lua_type(L, index)) {
    case LUA_TNIL: return SHARE;
    case LUA_TBOOLEAN: return lua_toboolean(L, index) ? COPY : SHARE;
    case LUA_TSTRING:
        if (strcmp(lua_tostring(L, index), "auto") == 0) return AUTO; /* fall through */
    default: return luaL_error(L, "bad option 'copy' (true, false or \"auto\" expected, got %s)", luaL_tolstring(L, index, NULL));
    }
}

/* "float32", or what prints so: torch's dtypes, NumPy's, and NumPy's scalar types */
static moon_dtype check_dtype(lua_State *L, int index) {
    static const char prefix[] = "<class 'numpy.";
    moon_dtype dtype;
    size_t n;
    const char *text = luaL_tolstring(L, index, &n);
    if (strncmp(text, prefix, sizeof prefix - 1) == 0) {
        lua_pushlstring(L, text + sizeof prefix - 1, n - (sizeof prefix - 1) - 2);
        lua_remove(L, -2);
        text = lua_tostring(L, -1);
    }
    if (!moon->dtype_find(text, &dtype)) luaL_error(L, "bad option 'dtype' (unknown dtype '%s')", text);
    lua_pop(L, 1);
    return dtype;
}

static bool flag(lua_State *L, const char *name, bool otherwise) {
    if (lua_type(L, -1) == LUA_TNIL) return otherwise;
    if (!lua_isboolean(L, -1)) luaL_error(L, "bad option '%s' (boolean expected, got %s)", name, luaL_typename(L, -1));
    return lua_toboolean(L, -1);
}

static void check_options(lua_State *L, int arg, from_options *o) {
    static const char *const names[] = {"copy", "force", "readonly", "dtype", "device", "lock", NULL};
    luaL_checktype(L, arg, LUA_TTABLE);
    known_options(L, arg, names);
    lua_getfield(L, arg, "copy");
    o->copy = copy_mode(L, lua_gettop(L));
    lua_getfield(L, arg, "force");
    o->force = flag(L, "force", false);
    lua_getfield(L, arg, "lock");
    o->lock = flag(L, "lock", true);
    if (lua_getfield(L, arg, "readonly") != LUA_TNIL) o->readonly = flag(L, "readonly", false);
    if (lua_getfield(L, arg, "dtype") != LUA_TNIL) o->dtype = check_dtype(L, lua_gettop(L));
    if (lua_getfield(L, arg, "device") != LUA_TNIL) {
        const char *device = luaL_tolstring(L, -1, NULL);
        if (strcmp(device, "cpu") != 0)
            luaL_error(L, "bad option 'device' (moon.from brings memory to \"cpu\" only, got '%s')", device);
        lua_pop(L, 1);
    }
    lua_pop(L, 6);
}

/* ---- the verb ---- */

static int import_once(importer *in, PyObject *o, const from_options *opt) {
    if (opt->force) return import_forced(in, o);
    int failed = import_object(in, o);
    if (failed == 0 || in->need != 0 || opt->copy != AUTO) return failed;
    PyErr_Clear();
    return import_forced(in, o);
}

/* Pushes a tensor over the memory of the object at arg; *transient: it is a temporary. [raises] */
static moon_tensor *push_view(lua_State *L, int arg, const from_options *opt, bool *transient) {
    state *S = STATE(L);
    int capacity = 8, kept = 0;
    for (;;) {
        READY(L, S);
        moon_tensor *blank = moon->push_blank(L, capacity);
        check_proxy(L, arg);
        cross c;
        enter(L, S, &c);
        PyObject *o = own(L, &c, to_proxy(L, arg));
        importer in = {.c = &c,
                       .blank = blank,
                       .readonly = opt->readonly == 1,
                       .lock = opt->lock && opt->copy != COPY && !opt->raw,
                       .raw = opt->raw,
                       .convert = opt->copy != SHARE,
                       .dtype = opt->dtype};
        int failed = import_once(&in, o, opt);
        Py_DECREF(o);
        if (likely(failed == 0)) {
            leave(&c);
            *transient = in.transient;
            if (unlikely(kept != 0)) lua_remove(L, kept);
            return blank;
        }
        if (in.need == 0) {
            result_error(L, &c);
            return NULL;
        }
        capacity = in.need;
        lua_pop(L, 1);
        if (in.capsule == NULL) {
            leave(&c);
            continue;
        }
        result_proxy(L, &c, in.capsule); /* Lua's from here on, whatever is raised */
        arg = kept = lua_gettop(L);
    }
}

moon_tensor *push_import(lua_State *L, int arg, bool raw) {
    from_options opt = no_options;
    bool transient;
    opt.copy = COPY;
    opt.raw = raw;
    return push_view(L, arg, &opt, &transient);
}

/* does the view have to give way to a copy? raises where it must not */
static bool needs_copy(lua_State *L, const from_options *opt, const moon_tensor *view) {
    bool may = opt->copy != SHARE || opt->force, must = opt->copy == COPY || opt->force;
    if (opt->dtype != MOON_DTYPE_COUNT && opt->dtype != view->dtype) {
        must = true;
        if (!may) {
            luaL_error(L, "the source is %s and cannot be shared as %s; {copy = true} converts it",
                       moon->dtype_name((moon_dtype)view->dtype), moon->dtype_name(opt->dtype));
        }
    }
    if (opt->readonly == 0 && view->readonly) {
        must = true;
        if (!may) luaL_error(L, "the source is read-only and cannot be shared for writing; {copy = true} copies it");
    }
    return must;
}

/* What is no Python object is core's affair. It would ask the bridge for what it does not know, so that is refused here. */
static int from_native(lua_State *L) {
    int n = lua_gettop(L), type = lua_type(L, 1);
    bool ours = type == LUA_TTABLE || (type == LUA_TUSERDATA && moon->test(L, 1) != NULL);
    if (type == LUA_TNONE) luaL_checkany(L, 1);
    if (!ours && (type != LUA_TUSERDATA || luaL_getmetafield(L, 1, "__dlpack") == LUA_TNIL)) {
        const char *hint = type == LUA_TSTRING   ? "; moon.from_string takes bytes"
                           : type == LUA_TNUMBER ? "; moon.tensor takes it"
                                                 : "";
        const char *name = luaL_getmetafield(L, 1, "__name") == LUA_TSTRING ? lua_tostring(L, -1) : luaL_typename(L, 1);
        return luaL_argerror(L, 1, lua_pushfstring(L, "tensor or an object that offers one expected, got %s%s", name, hint));
    }
    lua_settop(L, n);
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_insert(L, 1);
    if (lua_pcall(L, n, LUA_MULTRET, 0) != LUA_OK) return raise_as_ours(L);
    return lua_gettop(L);
}

/* Adapters may put another object in the place of one that is not torch's or NumPy's own. */
static void adapt(lua_State *L, const from_options *opt) {
    static const char *const modes[] = {[SHARE] = "share", [COPY] = "copy", [AUTO] = "auto"};
    if (push_adapter(L) != LUA_TFUNCTION) return;
    lua_pushvalue(L, 1);
    lua_pushstring(L, modes[opt->force ? COPY : opt->copy]);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK) raise_as_ours(L);
    if (lua_isnil(L, -1)) lua_pop(L, 1);
    else lua_replace(L, 1);
}

/* of a type that no adapter is asked about? Looks at types alone, and needs no GIL. */
static bool is_own(PyObject *o) {
    return o == NULL || torch_known(o) || numpy_known(o) || is_tensor_object(o) || Py_TYPE(o) == &PyCapsule_Type;
}

int moon_from(lua_State *L) { /* obj, [options] */
    proxy *p = to_proxy(L, 1);
    if (unlikely(p == NULL)) return from_native(L);
    from_options opt = no_options;
    bool transient;
    if (!lua_isnoneornil(L, 2)) check_options(L, 2, &opt);
    if (unlikely(!is_own(p->o))) {
        adapt(L, &opt);
        if (to_proxy(L, 1) == NULL) return from_native(L);
    }
    moon_tensor *view = push_view(L, 1, &opt, &transient);
    if (likely(!transient) && !needs_copy(L, &opt, view)) return 1;
    moon_tensor *copy = moon->push_blank(L, view->ndim);
    moon_status status = moon->copy_of(copy, view, opt.dtype);
    moon->close(view);
    if (status != MOON_OK) return moon->raise(L);
    if (opt.readonly == 1) copy->readonly = 1; /* nobody has seen it yet */
    return 1;
}
