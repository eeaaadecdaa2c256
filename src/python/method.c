/* Attributes and methods of proxies. `obj:name(…)` fetches a method and calls it at once; a bound Python object for each would
   cost more than the call. So the fetch gives a method value: the name, and the receiver it came from. For types known to have
   the method, it is made without entering Python, and used again once it has been called.

   A method value wants its receiver back as the first argument. If some instance has an attribute of its own in the method's
   place, the value finds out when it is used: the call looks the name up again. */
#include "bridge.h"
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 512, NAME_MAX_ = 40 }; /* Lua interns strings of up to 40 bytes */
#define VALUES lua_upvalueindex(3)      /* of proxy_index: entry number -> method value, weak */

typedef struct method {
    const void *magic;
    PyTypeObject *type; /* borrowed, for comparing */
    PyObject *name;     /* lives as long as the process */
    PyObject *self;     /* borrowed from the proxy, for comparing */
    proxy *from;        /* the proxy it was fetched from, while waiting; its finalizer tells us */
    PyObject *owned;    /* the receiver itself, once that proxy is gone */
    bool waiting;       /* fetched, not yet called */
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

static void let_go(state *S, method *m) {
    if (m->from != NULL) m->from->waiting = NULL;
    m->from = NULL;
    if (m->owned != NULL) {
        bury(S, m->owned);
        S->proxies--; /* the place in the queue that its proxy left to it */
        atomic_fetch_sub_explicit(&live_proxies, 1, memory_order_relaxed);
    }
    m->owned = NULL;
    m->waiting = false;
}

void method_outlives_proxy(state *S, proxy *p) {
    method *m = p->waiting;
    m->from = NULL;
    m->owned = p->o; /* with its place in the burial queue */
    p->waiting = NULL;
    p->o = NULL;
    S->proxies += m->owned != NULL;
}

static int method_gc(lua_State *L) {
    method *m = to_method(L, 1);
    if (m == NULL) return 0;
    state *S = STATE(L);
    let_go(S, m);
    if (S->fetched == m) S->fetched = NULL;
    m->magic = NULL;
    return 0;
}

static method *new_method(lua_State *L, const attribute *a) {
    method *m = (method *)lua_newuserdatauv(L, sizeof *m, 0);
    *m = (method){.magic = &method_magic, .name = a->name};
    lua_rawgetp(L, LUA_REGISTRYINDEX, &method_metatable);
    lua_setmetatable(L, -2);
    return m;
}

/* Two method values of one proxy, both waiting: the older gets a reference of its own. [raises] */
static void settle_older(lua_State *L, state *S, proxy *p) {
    reserve_burial(L, S);
    cross c;
    enter(L, S, &c);
    if (p->waiting != NULL) {
        method *m = p->waiting;
        Py_INCREF(p->o);
        m->owned = p->o;
        m->from = NULL;
        p->waiting = NULL;
        S->proxies++;
        atomic_fetch_add_explicit(&live_proxies, 1, memory_order_relaxed);
    }
    leave(&c);
}

static int push_method(lua_State *L, state *S, attribute *a, proxy *p) {
    lua_Integer slot = a - S->attributes + 1;
    lua_rawgeti(L, VALUES, slot);
    method *m = (method *)lua_touserdata(L, -1); /* the table is ours: a method, a proxy, or nothing */
    if (unlikely(m == NULL || m->magic != &method_magic || m->waiting || m->name != a->name)) {
        attribute copy = *a;
        lua_pop(L, 1);
        m = new_method(L, &copy);
        lua_pushvalue(L, -1);
        lua_rawseti(L, VALUES, slot);
        m->type = copy.type;
    } else {
        m->type = a->type;
    }
    if (unlikely(p->waiting != NULL)) settle_older(L, S, p);
    if (unlikely(p->o == NULL)) return luaL_error(L, "python object is closed");
    m->self = p->o;
    m->from = p;
    m->waiting = true;
    S->fetched = m;
    p->waiting = m;
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
    PyObject *own = self == o ? PyObject_GetAttr((PyObject *)Py_TYPE(o), name) : NULL;
    bool yes = own != NULL && Py_TYPE(own) != bound_method_type && !is_builtin(Py_TYPE(own));
    PyErr_Clear();
    Py_XDECREF(self);
    Py_XDECREF(own);
    return yes;
}

/* `end_` that found the method `end` of the type: the entry takes the real name, by which the method will be called */
static void take_real_name(PyObject *o, attribute *a, PyObject *value) {
    PyObject *underscored = PyObject_GetAttr((PyObject *)Py_TYPE(o), a->name);
    PyErr_Clear();
    Py_XDECREF(underscored);
    a->keyword = underscored == NULL;
    if (!a->keyword) return;
    PyObject *plain = strip_underscore(a->name);
    if (plain != NULL) PyUnicode_InternInPlace(&plain);
    if (plain != NULL && from_type(o, plain, value)) {
        a->name = plain; /* lives for ever, as interned names of the table do */
        a->keyword = false;
    } else {
        PyErr_Clear();
        Py_XDECREF(plain);
    }
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
    if (to_proxy(L, -1) != NULL) {
        lua_pushvalue(L, -1);
        lua_rawseti(L, VALUES, slot); /* an array part: no allocation */
    }
    return n;
}

/* The value is no scalar: a method of the type, an object, or NULL and a Python error. a is the entry of the name, or NULL for a
   name without one. Takes the references. */
static __attribute__((noinline)) int index_object(lua_State *L, cross *c, attribute *a, proxy *p, PyObject *o, PyObject *name,
                                                  PyObject *value) {
    PyTypeObject *type = Py_TYPE(o);
    bool known = value != NULL && a != NULL && a->type == type && a->name == name; /* it may be another's by now */
    bool fetched = false;
    if (known) {
        if (unlikely(a->keyword)) take_real_name(o, a, value);
        fetched = !a->keyword && from_type(o, a->name, value);
    }
    if (a == NULL) Py_DECREF(name);
    Py_DECREF(o);
    if (fetched) {
        a->method = true;
        Py_DECREF(value);
        leave(c);
        return push_method(L, c->S, a, p);
    }
    if (known && type == &PyModule_Type) return index_module(L, c, a, value);
    return result_object(L, c, value);
}

static int index_attribute(lua_State *L, state *S, attribute *a, proxy *p) {
    cross c;
    enter(L, S, &c);
    PyObject *o = p->o;
    attribute own;
    if (unlikely(a == NULL)) a = find_attribute(L, S, Py_TYPE(o), 2, &own);
    if (unlikely(a == NULL)) return result_error(L, &c);
    PyObject *name = a->name; /* lives for ever, unless it is own's */
    bool keyword = a->keyword;
    if (unlikely(a == &own)) a = NULL;
    Py_INCREF(o);
    park(&c);
    PyObject *value = PyObject_GetAttr(o, name);
    if (unlikely(value == NULL)) value = get_missing(o, name, keyword);
    unpark(&c);
    if (value == NULL || a == NULL || !push_scalar(L, value)) return index_object(L, &c, a, p, o, name, value);
    Py_DECREF(value);
    Py_DECREF(o);
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
    const void *address = lua_topointer(L, 2); /* of a string, if it is one that an entry knows: each anchors its own */
    attribute *a = slot_of(S, type, address);
    if (likely(is_about(a, type, address))) {
        if (a->method) return push_method(L, S, a, p);
    } else {
        a = NULL;
    }
    ready(L, k);
    if (unlikely(a == NULL) && lua_type(L, 2) != LUA_TSTRING) return index_item(L, S, p->o);
    return index_attribute(L, S, a, p);
}

/* ---- using a method value ---- */

static PyObject *receiver_of(const method *m) { /* borrowed; NULL if there is none any more */
    if (!m->waiting) return NULL;
    return m->from != NULL ? m->from->o : m->owned;
}

PyObject *method_to_python(lua_State *L, state *S, int i) {
    (void)S;
    method *m = to_method(L, i);
    PyObject *self = receiver_of(m);
    if (self != NULL) return PyObject_GetAttr(self, m->name);
    const char *s = PyUnicode_AsUTF8AndSize(m->name, NULL);
    return conversion_error("method '%s' was fetched, called, and then passed on: pass py.bound(obj, \"%s\")", s, s);
}

/* Called without its receiver. If the instance has an attribute of its own there, that is what was meant. */
static int call_without_receiver(lua_State *L, state *S, method *m) {
    cross c;
    enter(L, S, &c);
    PyObject *self = receiver_of(m);
    PyObject *own = self != NULL ? PyObject_GetAttr(self, m->name) : NULL;
    PyErr_Clear();
    bool shadowed = own != NULL && !from_type(self, m->name, own);
    if (shadowed) return call_python(L, &c, own, 2);
    Py_XDECREF(own);
    let_go(S, m);
    char name[64] = "";
    const char *s = PyUnicode_AsUTF8AndSize(m->name, NULL);
    if (s != NULL) strncat(name, s, sizeof name - 1);
    leave(&c);
    return luaL_error(L, "method '%s' called without its receiver: write obj:%s(…), or py.bound(obj, \"%s\")", name, name, name);
}

static int method_call(lua_State *L) {
    site *k = SITE(L);
    state *S = k->S;
    method *m = (method *)lua_touserdata(L, 1);
    if (unlikely(m == NULL || m != S->fetched)) {
        m = to_method(L, 1);
        if (m == NULL) return luaL_typeerror(L, 1, "python method");
    }
    ready(L, k);
    proxy *p = m->from;
    bool same = p != NULL && lua_touserdata(L, 2) == (void *)p;
    if (!same) p = to_proxy(L, 2);
    if (likely(p != NULL && p->o == m->self && p->o != NULL)) {
        if (likely(m->waiting)) let_go(S, m);
    } else if (m->waiting || p == NULL || p->o == NULL || Py_TYPE(p->o) != m->type) {
        return call_without_receiver(L, S, m);
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
        {"__call", method_call}, {"__index", method_index}, {"__tostring", method_tostring}, {"__gc", method_gc}, {NULL, NULL}};
    lua_createtable(L, 0, 32);
    set_functions(L, S, metamethods);
    lua_pushliteral(L, "python method");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &method_metatable);
    lua_createtable(L, ENTRIES, 0);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &anchors);
    S->attributes = (attribute *)calloc(ENTRIES, sizeof *S->attributes);
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
