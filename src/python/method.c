/* Attributes and methods of proxies. `obj:name(…)` fetches a method and calls it at once; a bound Python object for each would
   cost more than the call. So the fetch gives a method value: the name, and the receiver it came from. For types known to have
   the method, it is made without entering Python, and the last one made is given again to the same receiver.

   A method value wants its receiver back as the first argument. If some instance has an attribute of its own in the method's
   place, the value finds out when it is used: the call looks the name up again. */
#include "bridge.h"
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 512, NAME_MAX_ = 40 }; /* Lua interns strings of up to 40 bytes */
#define VALUES lua_upvalueindex(3)      /* of proxy_index: entry number -> method value or module's attribute, weak */

typedef struct method {
    const void *magic;
    PyObject *name; /* lives as long as the process */
    proxy *from;    /* the receiver; the user value keeps it */
} method;

static const char method_magic = 'm';
static const char method_metatable = 0; /* registry keys by address */
static const char anchors = 0;          /* entry number -> Lua string */

static PyTypeObject *bound_method_type, *builtin_method_type, *wrapper_type, *function_type;
static PyObject *self_name;

/* ---- names ---- */

static bool is_keyword(const char *s, size_t n) {
    static const char *const keywords[] = {"and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
                                           "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
                                           "repeat",   "return", "then", "true", "until",  "while"};
    if (n < 3 || s[n - 1] != '_') return false;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        if (strlen(keywords[i]) == n - 1 && memcmp(keywords[i], s, n - 1) == 0) return true;
    }
    return false;
}

static inline attribute *slot_of(state *S, PyTypeObject *type, const void *address) {
    uintptr_t h = ((uintptr_t)type >> 4) ^ ((uintptr_t)address >> 3) * 31u;
    return &S->attributes[(h ^ (h >> 9)) & (ENTRIES - 1)];
}

static bool make_name(attribute *a, const char *s, size_t n) {
    a->name = PyUnicode_FromStringAndSize(s, (Py_ssize_t)n);
    if (a->name == NULL) return false;
    PyUnicode_InternInPlace(&a->name);
    a->keyword = is_keyword(s, n);
    a->method = false;
    return true;
}

/* Called by a weak reference, whose type is dying. Lua may be looking at the entry without the GIL, on behalf of another type:
   hence the atomics, without order. */
static PyObject *type_died(PyObject *state_address, PyObject *weak) {
    state *S = (state *)PyLong_AsVoidPtr(state_address);
    for (int i = 0; i < ENTRIES && S->attributes != NULL; i++) {
        attribute *a = &S->attributes[i];
        if (a->weak == weak) __atomic_store_n(&a->type, NULL, __ATOMIC_RELAXED);
    }
    Py_RETURN_NONE;
}

static PyObject *watch_type(state *S, PyTypeObject *type) {
    static PyMethodDef definition = {"type_died", type_died, METH_O, NULL};
    if (S->type_died == NULL) {
        PyObject *address = PyLong_FromVoidPtr(S); /* S is never freed */
        S->type_died = address ? PyCFunction_NewEx(&definition, address, NULL) : NULL;
        Py_XDECREF(address);
    }
    return S->type_died ? PyWeakref_NewRef((PyObject *)type, S->type_died) : NULL;
}

static attribute *new_attribute(lua_State *L, state *S, PyTypeObject *type, int i, attribute *own) {
    size_t n;
    const char *s = lua_tolstring(L, i, &n);
    attribute fresh = {.type = type, .address = lua_topointer(L, i)};
    if (!make_name(&fresh, s, n)) return NULL;
    if (n > NAME_MAX_ || !lua_checkstack(L, 2)) {
        *own = fresh;
        return own;
    }
    fresh.weak = watch_type(S, type);
    if (fresh.weak == NULL) {
        Py_DECREF(fresh.name);
        return NULL;
    }
    attribute *a = slot_of(S, type, fresh.address);
    PyObject *old = a->weak;
    *a = fresh;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &anchors);
    lua_pushvalue(L, i);
    lua_rawseti(L, -2, a - S->attributes + 1); /* an array part: no allocation */
    lua_pop(L, 1);
    Py_XDECREF(old); /* a weak reference: runs no code */
    return a;
}

/* is entry a about the attribute with the string at `address`, of this very type? */
static inline bool is_about(const attribute *a, PyTypeObject *type, const void *address) {
    return __atomic_load_n(&a->type, __ATOMIC_RELAXED) == type && a->address == address;
}

attribute *find_attribute(lua_State *L, state *S, PyTypeObject *type, int i, attribute *own) {
    const void *s = lua_topointer(L, i);
    attribute *a = slot_of(S, type, s);
    return likely(is_about(a, type, s)) ? a : new_attribute(L, S, type, i, own);
}

/* An attribute of an instance may stand before the type's method from now on. */
void method_is_shadowed(lua_State *L, state *S, PyTypeObject *type, int i) {
    const void *address = lua_topointer(L, i);
    attribute *a = slot_of(S, type, address);
    if (is_about(a, type, address)) a->method = false;
}

/* *own lives on the C stack; interned names of the table live for ever */
void forget_own_name(attribute *a, attribute *own) {
    if (a == own && a != NULL) Py_DECREF(own->name);
}

/* ---- method values ---- */

static inline method *to_method(lua_State *L, int i) {
    method *m = (method *)lua_touserdata(L, i);
    return m != NULL && lua_rawlen(L, i) == sizeof *m && m->magic == &method_magic ? m : NULL;
}

bool is_method(lua_State *L, int i) { return to_method(L, i) != NULL; }

/* Method `name` of the proxy p at index 1. slot is the entry's number, or 0 for a name without one. */
static int push_method(lua_State *L, lua_Integer slot, PyObject *name, proxy *p) {
    if (likely(slot != 0)) {
        lua_rawgeti(L, VALUES, slot);
        method *m = (method *)lua_touserdata(L, -1); /* the table is ours: a method, a proxy, or nothing */
        if (likely(m != NULL && m->magic == &method_magic && m->from == p && m->name == name)) return 1;
        lua_pop(L, 1);
    }
    method *m = (method *)lua_newuserdatauv(L, sizeof *m, 1);
    *m = (method){&method_magic, name, p};
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &method_metatable);
    lua_setmetatable(L, -2);
    if (slot != 0) {
        lua_pushvalue(L, -1);
        lua_rawseti(L, VALUES, slot); /* an array part: no allocation */
    }
    return 1;
}

/* of a function in C, also where it is told its class (METH_METHOD: re.Pattern.match), whose type is a subtype */
static inline bool is_builtin(PyTypeObject *type) {
    return type == builtin_method_type || PyType_IsSubtype(type, builtin_method_type);
}

static inline bool is_bound(PyTypeObject *type) { return type == bound_method_type || type == wrapper_type || is_builtin(type); }

/* A function that an instance keeps in a method's place is used as one: torch's schedulers wrap optimizer.step so. */
static bool stands_in(PyObject *o, PyObject *name, PyObject *value) {
    PyObject *own = PyObject_GetAttr((PyObject *)Py_TYPE(o), name);
    bool yes = own != NULL && Py_TYPE(own) == function_type && own != value; /* the same: a static method */
    PyErr_Clear();
    Py_XDECREF(own);
    return yes;
}

/* does the bound method `value` come from o's type, and not from its dict or __getattr__? */
static bool from_type(PyObject *o, PyObject *name, PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if (type == function_type) return !PyType_Check(o) && !PyModule_Check(o) && stands_in(o, name, value);
    if (likely(!is_bound(type)) || PyType_Check(o) || PyModule_Check(o)) return false;
    PyObject *self = PyObject_GetAttr(value, self_name);
    if (Py_TYPE(o) == &PySuper_Type) { /* of the object behind it; a class method is called with the dot, as ever */
        bool bound = self != NULL && !PyType_Check(self);
        Py_XDECREF(self);
        PyErr_Clear();
        return bound;
    }
    PyObject *own = self == o ? PyObject_GetAttr((PyObject *)Py_TYPE(o), name) : NULL;
    bool yes = own != NULL && Py_TYPE(own) != bound_method_type && !is_builtin(Py_TYPE(own));
    PyErr_Clear();
    Py_XDECREF(self);
    Py_XDECREF(own);
    return yes;
}

/* The name by which `value`, read from o as `name`, is a method of o's type; NULL if it is none. With keyword, `end_` may have
   found the method `end`. Lives for ever. Runs Python code. */
static PyObject *method_name(PyObject *o, PyObject *name, bool keyword, PyObject *value) {
    PyObject *found = name, *plain = NULL;
    if (unlikely(keyword)) {
        PyObject *underscored = PyObject_GetAttr((PyObject *)Py_TYPE(o), name);
        PyErr_Clear();
        if (underscored == NULL) found = plain = strip_underscore(name);
        if (plain != NULL) PyUnicode_InternInPlace(&plain), found = plain;
        Py_XDECREF(underscored);
    }
    bool yes = found != NULL && from_type(o, found, value);
    PyErr_Clear();
    if (!yes) Py_CLEAR(plain);
    return yes ? found : NULL;
}

/* torch.zeros is the same object at every read, so it may be the same proxy: the last one of this name, if it still holds that
   object. Pushes it and drops value, or does nothing. */
static bool push_again(lua_State *L, const state *S, const attribute *a, PyObject *value) {
    lua_rawgeti(L, VALUES, a - S->attributes + 1);
    proxy *known = to_proxy(L, -1);
    if (known == NULL || known->o != value) {
        lua_pop(L, 1);
        return false;
    }
    Py_DECREF(value);
    return true;
}

static int index_module(lua_State *L, cross *c, attribute *a, PyObject *value) {
    state *S = c->S;
    lua_Integer slot = a - S->attributes + 1;
    if (push_again(L, S, a, value)) {
        leave(c);
        return 1;
    }
    int n = result(L, c, value);
    proxy *p = to_proxy(L, -1);
    if (p != NULL) {
        p->shared = true;
        lua_pushvalue(L, -1);
        lua_rawseti(L, VALUES, slot); /* an array part: no allocation */
    }
    return n;
}

/* what an attribute was read with */
typedef struct reading {
    proxy *p;
    PyObject *o; /* owned */
    const void *address;
    PyObject *name; /* lives for ever, or is owned: not listed */
    bool keyword, listed;
} reading;

/* the entry of a reading, unless it is another's by now; Python code may have come back to Lua */
static attribute *entry_of(state *S, const reading *r) {
    attribute *a = r->listed ? slot_of(S, Py_TYPE(r->o), r->address) : NULL;
    return a != NULL && is_about(a, Py_TYPE(r->o), r->address) && a->name == r->name ? a : NULL;
}

/* The value is no scalar: a method of the type, an object, or NULL and a Python error. Takes it, and what the reading owns. */
static __attribute__((noinline)) int index_object(lua_State *L, cross *c, reading *r, PyObject *value) {
    state *S = c->S;
    PyTypeObject *type = Py_TYPE(r->o);
    PyObject *name = NULL;
    if (value != NULL) UNLOCKED(c, name = method_name(r->o, r->name, r->keyword, value));
    attribute *a = entry_of(S, r);
    if (name != NULL && a != NULL) {
        a->name = name;
        a->keyword = false;
        a->method = type != &PySuper_Type; /* there the next one may stand before another class */
    }
    if (!r->listed && name != r->name) Py_DECREF(r->name); /* the name of a method stays */
    bool module = type == &PyModule_Type && a != NULL;
    Py_DECREF(r->o);
    if (name != NULL) {
        Py_DECREF(value);
        leave(c);
        return push_method(L, a != NULL ? a - S->attributes + 1 : 0, name, r->p);
    }
    return module && value != NULL ? index_module(L, c, a, value) : result_object(L, c, value);
}

/* a: the entry if it was known before the crossing, or NULL */
static int index_attribute(lua_State *L, state *S, attribute *a, proxy *p, const void *address) {
    cross c;
    enter(L, S, &c);
    reading r = {.p = p, .o = own(L, &c, p), .address = address};
    attribute unlisted;
    if (unlikely(a == NULL || !is_about(a, Py_TYPE(r.o), r.address))) a = find_attribute(L, S, Py_TYPE(r.o), 2, &unlisted);
    if (unlikely(a == NULL)) {
        Py_DECREF(r.o);
        return result_error(L, &c);
    }
    r.name = a->name;
    r.keyword = a->keyword;
    r.listed = a != &unlisted;
    park(&c);
    PyObject *value = PyObject_GetAttr(r.o, r.name);
    if (unlikely(value == NULL)) value = get_missing(r.o, r.name, r.keyword);
    unpark(&c);
    if (unlikely(value == NULL || !r.listed || !push_scalar(L, value))) return index_object(L, &c, &r, value);
    Py_DECREF(value);
    Py_DECREF(r.o);
    leave(&c);
    return 1;
}

int proxy_index(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    proxy *p = (proxy *)lua_touserdata(L, 1);
    if (unlikely(p == NULL || p != S->indexed)) {
        p = to_proxy(L, 1);
        if (p == NULL) return luaL_typeerror(L, 1, "python object");
        S->indexed = p;
    }
    if (unlikely(p->o == NULL)) return luaL_error(L, "python object is closed");
    PyTypeObject *type = Py_TYPE(p->o);
    const void *address = lua_topointer(L, 2);
    attribute *a = slot_of(S, type, address);
    if (unlikely(!is_about(a, type, address) || S->dead)) { /* else the key is the entry's own string, which stays where it is */
        if (lua_type(L, 2) != LUA_TSTRING || S->dead) {
            ready(L, k);
            return index_item(L, S, p);
        }
        a = NULL;
    } else if (a->method) {
        return push_method(L, a - S->attributes + 1, a->name, p);
    }
    ready(L, k);
    return index_attribute(L, S, a, p, address);
}

/* ---- using a method value ---- */

/* the attribute itself, read again from the receiver: new reference or Python error */
static PyObject *read_method(state *S, const method *m) {
    PyObject *self = m->from->o, *value;
    if (self == NULL) return conversion_error("python object is closed");
    Py_INCREF(self);
    thread *holder = S->holder;
    lend(S);
    value = PyObject_GetAttr(self, m->name);
    take_back(S, holder);
    Py_DECREF(self);
    return value;
}

PyObject *method_to_python(lua_State *L, state *S, int i) { return read_method(S, to_method(L, i)); }

/* Called without its receiver. If the instance has an attribute of its own there, that is what was meant. */
static int call_without_receiver(lua_State *L, state *S, method *m) {
    cross c;
    enter(L, S, &c);
    PyObject *self = own(L, &c, m->from), *value;
    bool shadowed = false;
    park(&c);
    value = PyObject_GetAttr(self, m->name);
    PyErr_Clear();
    if (value != NULL) shadowed = !from_type(self, m->name, value);
    PyErr_Clear();
    unpark(&c);
    Py_DECREF(self);
    if (shadowed) return call_python(L, &c, value, 2);
    Py_XDECREF(value);
    char name[64] = "";
    const char *s = PyUnicode_AsUTF8AndSize(m->name, NULL);
    if (s != NULL) strncat(name, s, sizeof name - 1);
    leave(&c);
    return luaL_error(L, "method '%s' called without its receiver: write obj:%s(…), or py.bound(obj, \"%s\")", name, name, name);
}

static int method_call(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    method *m = to_method(L, 1);
    if (unlikely(m == NULL)) return luaL_typeerror(L, 1, "python method");
    ready(L, k);
    proxy *p = m->from;
    if (unlikely(lua_touserdata(L, 2) != (void *)p)) {
        p = to_proxy(L, 2); /* another proxy of the same object will do */
        if (p == NULL || p->o != m->from->o) return call_without_receiver(L, S, m);
    }
    return call_method(L, S, m->name, p);
}

static int method_tostring(lua_State *L) {
    method *m = to_method(L, 1);
    if (m == NULL) return luaL_typeerror(L, 1, "python method");
    lua_pushfstring(L, "python method: %p", (void *)m);
    return 1;
}

/* anything else that is done with a method value is done with the bound method */
static int method_index(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    ready(L, k);
    if (to_method(L, 1) == NULL) return luaL_typeerror(L, 1, "python method");
    luaL_checkstring(L, 2);
    cross c;
    enter(L, S, &c);
    attribute own, *a = NULL;
    PyObject *bound = method_to_python(L, S, 1), *value = NULL;
    if (bound != NULL) a = find_attribute(L, S, Py_TYPE(bound), 2, &own);
    if (a != NULL) UNLOCKED(&c, value = get_named(bound, a));
    forget_own_name(a, &own);
    Py_XDECREF(bound);
    return result(L, &c, value);
}

void open_methods(lua_State *L, state *S) {
    static const luaL_Reg metamethods[] = {
        {"__call", method_call}, {"__index", method_index}, {"__tostring", method_tostring}, {NULL, NULL}};
    lua_createtable(L, 0, 32);
    set_functions(L, S, metamethods);
    lua_pushliteral(L, "python method");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &method_metatable);
    lua_createtable(L, ENTRIES, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &anchors);
    if (S->attributes == NULL) S->attributes = (attribute *)calloc(ENTRIES, sizeof *S->attributes);
    if (S->attributes == NULL) luaL_error(L, "not enough memory");
    push_proxy_metatable(L);
    push_site(L, S);
    lua_createtable(L, ENTRIES, 0);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_pushcclosure(L, proxy_index, 3);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

void close_methods(state *S) {
    for (int i = 0; i < ENTRIES && S->attributes != NULL; i++) Py_XDECREF(S->attributes[i].weak);
    free(S->attributes);
    S->attributes = NULL;
    Py_CLEAR(S->type_died);
}

int init_methods(void) {
    PyObject *types = PyImport_ImportModule("types");
    if (types == NULL) return -1;
    bound_method_type = (PyTypeObject *)PyObject_GetAttrString(types, "MethodType");
    builtin_method_type = (PyTypeObject *)PyObject_GetAttrString(types, "BuiltinMethodType");
    wrapper_type = (PyTypeObject *)PyObject_GetAttrString(types, "MethodWrapperType");
    function_type = (PyTypeObject *)PyObject_GetAttrString(types, "FunctionType");
    self_name = PyUnicode_InternFromString("__self__");
    Py_DECREF(types);
    return bound_method_type && builtin_method_type && wrapper_type && function_type && self_name ? 0 : -1;
}
