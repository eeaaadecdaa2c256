/* Methods. `obj:name(…)` fetches a method and calls it at once; a bound Python object for each would cost more than the call.
   So the fetch gives a method value: the name, and the receiver it came from. For types known to have the method, it is made
   without entering Python, and used again once it has been called.

   A method value wants its receiver back as the first argument. If some instance has an attribute of its own in the method's
   place, the value finds out when it is used: the call looks the name up again. */
#include "bridge.h"
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 512, NAME_MAX_ = 39 };

typedef struct method_entry {
    PyTypeObject *type; /* one reference */
    PyObject *name;     /* one reference, interned */
    const char *address;
    uint8_t size;
    char bytes[NAME_MAX_];
} method_entry;

/* uservalue 1: the proxy it was fetched from, until called */
typedef struct method {
    const void *magic;
    PyTypeObject *type; /* borrowed, for comparing */
    PyObject *name;     /* one reference */
    PyObject *self;     /* borrowed from the proxy, for comparing */
    bool waiting;       /* fetched, not yet called */
} method;

static const char method_magic = 'm';
static const char method_metatable = 0; /* registry keys by address */
static const char method_values = 0;    /* entry number -> method, weak */

static PyTypeObject *bound_method_type, *builtin_method_type;
static PyObject *self_name;

static method *to_method(lua_State *L, int i) {
    method *m = (method *)lua_touserdata(L, i);
    return m != NULL && lua_rawlen(L, i) == sizeof *m && m->magic == &method_magic ? m : NULL;
}

bool is_method(lua_State *L, int i) {
    return to_method(L, i) != NULL;
}

static method_entry *slot_of(state *S, PyTypeObject *type, const char *address) {
    uintptr_t h = ((uintptr_t)type >> 4) ^ ((uintptr_t)address >> 4) * 31u;
    return &S->methods[(h ^ (h >> 9)) & (ENTRIES - 1)];
}

/* a method value for entry e with the proxy at index 1 as its receiver */
static void push_method(lua_State *L, method_entry *e, state *S, PyObject *self) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &method_values);
    lua_Integer slot = e - S->methods + 1;
    method *m = lua_rawgeti(L, -1, slot) == LUA_TUSERDATA ? to_method(L, -1) : NULL;
    if (m == NULL || m->waiting || m->name != e->name) {
        lua_pop(L, 1);
        m = (method *)lua_newuserdatauv(L, sizeof *m, 1);
        m->magic = NULL;
        lua_rawgetp(L, LUA_REGISTRYINDEX, &method_metatable);
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, slot);
        m->name = e->name;
        m->magic = &method_magic;
    }
    m->type = e->type;
    m->self = self;
    m->waiting = true;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
}

bool push_known_method(lua_State *L, state *S, proxy *p, int name) {
    size_t n;
    const char *s = lua_tolstring(L, name, &n);
    method_entry *e = slot_of(S, Py_TYPE(p->o), s);
    if (e->type != Py_TYPE(p->o) || e->address != s || e->size != n || memcmp(e->bytes, s, n) != 0) return false;
    push_method(L, e, S, p->o);
    return true;
}

/* does the bound method `value` come from o's type, and not from its dict or __getattr__? */
static bool from_type(PyObject *o, PyObject *attribute, PyObject *value) {
    PyTypeObject *type = Py_TYPE(value);
    if ((type != bound_method_type && type != builtin_method_type) || PyType_Check(o) || PyModule_Check(o)) return false;
    PyObject *self = PyObject_GetAttr(value, self_name);
    PyObject *own = self == o ? PyObject_GetAttr((PyObject *)Py_TYPE(o), attribute) : NULL;
    bool yes = own != NULL && Py_TYPE(own) != bound_method_type && Py_TYPE(own) != builtin_method_type;
    PyErr_Clear();
    Py_XDECREF(self);
    Py_XDECREF(own);
    return yes;
}

bool learn_method(lua_State *L, state *S, PyObject *o, int name, PyObject *attribute, PyObject *value) {
    size_t n;
    const char *s = lua_tolstring(L, name, &n);
    if (n > NAME_MAX_ || !from_type(o, attribute, value)) return false;
    method_entry *e = slot_of(S, Py_TYPE(o), s);
    PyTypeObject *old_type = e->type;
    Py_INCREF((PyObject *)Py_TYPE(o));
    Py_INCREF(attribute); /* interned names live as long as the process: method values borrow them */
    e->type = Py_TYPE(o);
    e->name = attribute;
    e->address = s;
    e->size = (uint8_t)n;
    memcpy(e->bytes, s, n);
    Py_XDECREF((PyObject *)old_type);
    return true;
}

void forget_method(lua_State *L, state *S, PyObject *o, int name) {
    size_t n;
    const char *s = lua_tolstring(L, name, &n);
    method_entry *e = slot_of(S, Py_TYPE(o), s);
    if (e->type == Py_TYPE(o) && e->address == s) e->address = NULL;
}

/* ---- using a method value ---- */

/* the proxy it was fetched from, while it waits: pushed */
static proxy *push_receiver(lua_State *L, method *m, int i) {
    if (!m->waiting) {
        lua_pushnil(L);
        return NULL;
    }
    lua_getiuservalue(L, i, 1);
    return to_proxy(L, -1);
}

PyObject *method_to_python(lua_State *L, state *S, int i) {
    (void)S;
    method *m = to_method(L, i);
    proxy *p = push_receiver(L, m, i);
    PyObject *bound = NULL;
    if (p != NULL && p->o != NULL) bound = PyObject_GetAttr(p->o, m->name);
    else {
        Py_ssize_t n;
        const char *s = PyUnicode_AsUTF8AndSize(m->name, &n);
        conversion_error("method '%s' was fetched, called, and then passed on: pass py.bound(obj, \"%s\")", s, s);
    }
    lua_pop(L, 1);
    return bound;
}

/* Called without its receiver. If the instance has an attribute of its own there, that is what was meant. */
static int call_without_receiver(lua_State *L, method *m) {
    state *S = STATE(L);
    cross c;
    enter(L, S, &c);
    proxy *p = push_receiver(L, m, 1);
    PyObject *own = p != NULL && p->o != NULL ? PyObject_GetAttr(p->o, m->name) : NULL;
    PyErr_Clear();
    bool shadowed = own != NULL && !from_type(p->o, m->name, own);
    lua_pop(L, 1);
    m->waiting = false;
    if (!shadowed) {
        Py_XDECREF(own);
        char name[64] = "?";
        Py_ssize_t n;
        const char *s = PyUnicode_AsUTF8AndSize(m->name, &n);
        if (s != NULL) strncpy(name, s, sizeof name - 1);
        leave(&c);
        return luaL_error(L, "method '%s' called without its receiver: write obj:%s(…), or py.bound(obj, \"%s\")", name, name, name);
    }
    return call_python(L, &c, own, 2);
}

static int method_call(lua_State *L) {
    state *S = STATE(L);
    method *m = to_method(L, 1);
    if (m == NULL) return luaL_typeerror(L, 1, "python method");
    READY(L, S);
    proxy *p = to_proxy(L, 2);
    if (likely(p != NULL && p->o == m->self && p->o != NULL)) {
        if (m->waiting) {
            m->waiting = false;
            lua_pushnil(L);
            lua_setiuservalue(L, 1, 1);
        }
    } else if (m->waiting || p == NULL || p->o == NULL || Py_TYPE(p->o) != m->type) {
        return call_without_receiver(L, m);
    }
    return call_method(L, S, m->name, 2);
}

static int method_tostring(lua_State *L) {
    method *m = to_method(L, 1);
    if (m == NULL) return luaL_typeerror(L, 1, "python method");
    lua_pushfstring(L, "python method: %p", (void *)m);
    return 1;
}

/* anything else that is done with a method value is done with the bound method */
static int method_index(lua_State *L) {
    state *S = STATE(L);
    READY(L, S);
    if (to_method(L, 1) == NULL) return luaL_typeerror(L, 1, "python method");
    luaL_checkstring(L, 2);
    cross c;
    enter(L, S, &c);
    bool keyword;
    PyObject *bound = method_to_python(L, S, 1), *value = NULL;
    PyObject *name = bound ? attribute_name(L, 2, &keyword) : NULL;
    if (name != NULL) UNLOCKED(&c, value = PyObject_GetAttr(bound, name));
    Py_XDECREF(name);
    Py_XDECREF(bound);
    return result(L, &c, value);
}

void open_methods(lua_State *L, state *S) {
    static const luaL_Reg metamethods[] = {
        {"__call", method_call}, {"__index", method_index}, {"__tostring", method_tostring}, {NULL, NULL}};
    lua_createtable(L, 0, 4);
    set_functions(L, S, metamethods);
    lua_pushliteral(L, "python method");
    lua_setfield(L, -2, "__name");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &method_metatable);
    lua_createtable(L, ENTRIES, 0);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &method_values);
    S->methods = (method_entry *)calloc(ENTRIES, sizeof *S->methods);
    if (S->methods == NULL) luaL_error(L, "not enough memory");
}

void close_methods(state *S) {
    for (int i = 0; i < ENTRIES && S->methods != NULL; i++) Py_XDECREF((PyObject *)S->methods[i].type);
    free(S->methods);
    S->methods = NULL;
}

int init_methods(void) {
    PyObject *types = PyImport_ImportModule("types");
    if (types == NULL) return -1;
    bound_method_type = (PyTypeObject *)PyObject_GetAttrString(types, "MethodType");
    builtin_method_type = (PyTypeObject *)PyObject_GetAttrString(types, "BuiltinMethodType");
    self_name = PyUnicode_InternFromString("__self__");
    Py_DECREF(types);
    return bound_method_type && builtin_method_type && self_name ? 0 : -1;
}
