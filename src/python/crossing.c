/* Proxies, and the two forms of function: hot ones with a blank, comfortable ones in a protected call. */
#include "bridge.h"
#include <stdlib.h>
#include <string.h>

const char proxy_magic = 'p';
const moon_api *moon;

static const char proxy_metatable = 0; /* registry keys by address */
static const char recent_table = 0;    /* the newest proxies, with weak values */

/* ---- proxies and blanks ---- */

/* Room in the burial queue is made here, where failing is allowed, so that a finalizer never has to allocate. */
void reserve_burial(lua_State *L, state *S) {
    if (S->proxies + S->nburied < S->room) return; /* those that were buried have their places still */
    size_t room = S->room ? 2 * S->room : 256;
    PyObject **p = (PyObject **)realloc(S->buried, room * sizeof *p);
    if (p == NULL) luaL_error(L, "not enough memory");
    S->buried = p;
    S->room = room;
}

static proxy *new_proxy(lua_State *L, state *S) {
    reserve_burial(L, S);
    proxy *p = (proxy *)lua_newuserdatauv(L, sizeof *p, 0);
    p->magic = &proxy_magic;
    p->o = NULL;
    p->charged = 0;
    p->link = NULL;
    p->shared = p->finalized = false;
    S->proxies++;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &proxy_metatable);
    lua_setmetatable(L, -2);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &recent_table);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, S->next_recent + 1);
    lua_pop(L, 1);
    p->slot = S->next_recent;
    S->next_recent = (uint8_t)((S->next_recent + 1) % RECENT);
    S->recent[p->slot] = p;
    return p;
}

/* Lua clears weak values before it runs their finalizers, but not when it closes the state. Then it goes from the newest object
   to the oldest, and meets a recent proxy first; of the newest alone it would not do to know, for a finalizer may make more. */
static bool is_closing(lua_State *L, const proxy *p) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &recent_table);
    lua_rawgeti(L, -1, p->slot + 1);
    bool yes = lua_touserdata(L, -1) == p;
    lua_pop(L, 2);
    return yes;
}

static bool any_recent(const state *S) {
    for (int i = 0; i < RECENT; i++) {
        if (S->recent[i] != NULL) return true;
    }
    return false;
}

static int proxy_gc(lua_State *L) {
    state *S = STATE(L);
    proxy *p = to_proxy(L, 1);
    if (p == NULL || p->finalized) return 0;
    bool recent = S->recent[p->slot] == p;
    if (recent) {
        if (is_closing(L, p)) state_is_closing(S); /* Python's exit work, while Lua's part in it has its proxies */
        S->recent[p->slot] = NULL;
    }
    p->finalized = true;
    if (S->indexed == p) S->indexed = NULL;
    if (S->called == p) S->called = NULL;
    uncharge(S, p);
    leave_scope(p);
    if (p->o != NULL) {
        bury(S, p->o);
        p->o = NULL;
        atomic_fetch_sub_explicit(&live_proxies, 1, memory_order_relaxed);
    }
    S->proxies--;
    if (recent && !S->dead && !any_recent(S)) new_proxy(L, S); /* there is always one to tell the end by */
    return 0;
}

int proxy_close(lua_State *L) {
    proxy *p = to_proxy(L, 1);
    if (p == NULL) luaL_typeerror(L, 1, "python object");
    if (p->o == NULL || p->shared) return 0;
    cross c;
    enter(L, STATE(L), &c);
    PyObject *o = p->o;
    p->o = NULL;
    uncharge(c.S, p);
    leave_scope(p);
    atomic_fetch_sub_explicit(&live_proxies, 1, memory_order_relaxed);
    UNLOCKED(&c, Py_DECREF(o));
    leave(&c);
    return 0;
}

/* one reference, taken */
static void fill_proxy(state *S, proxy *p, PyObject *o) {
    p->o = o;
    join_scope(S, p);
    atomic_fetch_add_explicit(&live_proxies, 1, memory_order_relaxed);
}

void push_proxy(lua_State *L, state *S, PyObject *o) {
    proxy *p = new_proxy(L, S);
    Py_INCREF(o);
    fill_proxy(S, p, o);
    charge(S, p);
}

void make_blank(lua_State *L, site *k) {
    if (is_gone) luaL_error(L, "Python was finalized by this process's host");
    if (k->S->dead) luaL_error(L, "the Lua state is closing: its way to Python is closed");
    luaL_checkstack(L, 4, NULL);
    keep_signals();
    /* before the call and not after it: what the caller's variable held till now is garbage only now */
    if (unlikely(k->S->pending >= k->S->gc_threshold)) collect_charged(L, k->S);
    k->blank = new_proxy(L, k->S);
    lua_replace(L, lua_upvalueindex(2));
}

void new_proxy_metatable(lua_State *L, state *S) {
    lua_createtable(L, RECENT, 0);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &recent_table);
    lua_createtable(L, 0, 128); /* sparse: few collisions on the way to __index and __call */
    lua_pushliteral(L, "python object");
    lua_setfield(L, -2, "__name");
    push_function(L, S, proxy_gc);
    lua_setfield(L, -2, "__gc");
    push_function(L, S, proxy_close);
    lua_setfield(L, -2, "__close");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &proxy_metatable);
}

void push_proxy_metatable(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &proxy_metatable); }

PyObject *check_proxy(lua_State *L, int arg) {
    proxy *p = to_proxy(L, arg);
    if (p == NULL) luaL_typeerror(L, arg, "python object");
    if (p->o == NULL) raise_closed(L, arg);
    return p->o;
}

/* ---- functions ---- */

void push_site(lua_State *L, state *S) {
    site *k = (site *)lua_newuserdatauv(L, sizeof *k, 0);
    *k = (site){S, NULL};
    lua_pushnil(L);
}

void push_function(lua_State *L, state *S, lua_CFunction f) {
    push_site(L, S);
    lua_pushcclosure(L, f, 2);
}

void set_functions(lua_State *L, state *S, const luaL_Reg *functions) {
    for (; functions->name != NULL; functions++) {
        push_function(L, S, functions->func);
        lua_setfield(L, -2, functions->name);
    }
}

static int new_proxy_protected(lua_State *L) { /* state */
    new_proxy(L, (state *)lua_touserdata(L, 1));
    return 1;
}

/* The blank that READY made is gone if the same function ran again meanwhile, in a callback, or if the Lua state is closing. */
static void renew_blank(lua_State *L, cross *c, site *k, PyObject *value) {
    lua_pushcfunction(L, new_proxy_protected);
    lua_pushlightuserdata(L, c->S);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK) {
        k->blank = (proxy *)lua_touserdata(L, -1);
        lua_replace(L, lua_upvalueindex(2));
        return;
    }
    UNLOCKED(c, Py_DECREF(value));
    leave(c);
    lua_error(L);
}

/* the blank becomes the owner of value (taken), and is pushed */
static proxy *push_blank_with(lua_State *L, cross *c, PyObject *value) {
    site *k = SITE(L);
    if (unlikely(k->blank == NULL || k->blank->finalized)) renew_blank(L, c, k, value);
    proxy *p = k->blank;
    lua_pushvalue(L, lua_upvalueindex(2));
    k->blank = NULL;
    lua_pushnil(L); /* or the last result would live until the next call */
    lua_replace(L, lua_upvalueindex(2));
    fill_proxy(c->S, p, value);
    return p;
}

static int finish_with(lua_State *L, cross *c, PyObject *value) {
    charge(c->S, push_blank_with(L, c, value));
    leave(c);
    return 1;
}

int result_error(lua_State *L, cross *c) {
    PyObject *e = take_error(L);
    char text[512];
    if (conversion_text(e, text, sizeof text)) {
        Py_DECREF(e);
        leave(c);
        return raise_text(L, text);
    }
    push_blank_with(L, c, e);
    push_lua_error_value(L, c->S, e);
    leave(c);
    return lua_error(L);
}

int result_proxy(lua_State *L, cross *c, PyObject *value) {
    if (unlikely(value == NULL)) return result_error(L, c);
    return finish_with(L, c, value);
}

int result_none(lua_State *L, cross *c, int failed) {
    if (unlikely(failed)) return result_error(L, c);
    leave(c);
    return 0;
}

/* Text and bytes: short ones go through the C stack, long ones stay owned by the blank while Lua copies them. */
static int result_text(lua_State *L, cross *c, PyObject *value, const char *s, size_t n) {
    char buffer[256];
    if (n <= sizeof buffer) {
        memcpy(buffer, s, n);
        Py_DECREF(value);
        leave(c);
        lua_pushlstring(L, buffer, n);
        return 1;
    }
    proxy *p = push_blank_with(L, c, value);
    leave(c);
    lua_pushlstring(L, s, n);
    bury(c->S, p->o);
    p->o = NULL;
    atomic_fetch_sub_explicit(&live_proxies, 1, memory_order_relaxed);
    return 1;
}

int result_object(lua_State *L, cross *c, PyObject *value) {
    if (unlikely(value == NULL)) return result_error(L, c);
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyUnicode_Type) {
        Py_ssize_t n;
        const char *s = PyUnicode_AsUTF8AndSize(value, &n);
        if (s != NULL) return result_text(L, c, value, s, (size_t)n);
        PyErr_Clear(); /* lone surrogates: stays a proxy */
    } else if (type == &PyBytes_Type) {
        return result_text(L, c, value, PyBytes_AsString(value), (size_t)PyBytes_Size(value));
    } else {
        luaref *r = find_luaref(value);
        if (unlikely(r != NULL && r->S == c->S)) {
            lua_rawgeti(L, LUA_REGISTRYINDEX, r->ref);
            Py_DECREF(value);
            leave(c);
            return 1;
        }
        PyObject *plain = numpy_scalar(value);
        if (unlikely(plain != NULL)) {
            Py_DECREF(value);
            return result(L, c, plain);
        }
    }
    state *S = c->S;
    bool decode = unlikely(S->decode) && decodes(S, value);
    finish_with(L, c, value);
    if (unlikely(decode)) decode_top(L, S);
    return 1;
}

/* ---- crossings in a protected call ---- */

PyObject *keep(job *j, PyObject *o) {
    if (o == NULL) return NULL;
    if (j->nkept == j->room) {
        size_t room = 2 * j->room;
        PyObject **p = (PyObject **)malloc(room * sizeof *p);
        if (p == NULL) {
            Py_DECREF(o);
            PyErr_NoMemory();
            return NULL;
        }
        memcpy(p, j->kept, j->nkept * sizeof *p);
        if (j->kept != j->inline_kept) free(j->kept);
        j->kept = p;
        j->room = room;
    }
    return j->kept[j->nkept++] = o;
}

void release_kept(job *j) {
    while (j->nkept != 0) Py_DECREF(j->kept[--j->nkept]);
    if (j->kept != j->inline_kept) free(j->kept);
}

typedef struct protected_job {
    job j;
    job_body body;
    int status; /* results, or -1 */
} protected_job;

static int run_body(lua_State *L) {
    protected_job *p = (protected_job *)lua_touserdata(L, 1);
    lua_remove(L, 1);
    p->status = p->body(L, &p->j);
    return p->status < 0 ? 0 : p->status;
}

int crossing(lua_State *L, job_body body, void *context) {
    site *k = SITE(L);
    state *S = k->S;
    ready(L, k);
    luaL_checkstack(L, 4, NULL);
    int n = lua_gettop(L);
    cross c;
    protected_job p;
    p.body = body;
    p.status = 0;
    p.j.S = S;
    p.j.c = &c;
    p.j.kept = p.j.inline_kept;
    p.j.nkept = 0;
    p.j.room = sizeof p.j.inline_kept / sizeof *p.j.inline_kept;
    p.j.context = context;
    enter(L, S, &c);
    lua_pushcfunction(L, run_body);
    lua_insert(L, 1);
    lua_pushlightuserdata(L, &p);
    lua_insert(L, 2);
    int status = lua_pcall(L, n + 1, LUA_MULTRET, 0);
    PyObject *error = NULL;
    if (status == LUA_OK && p.status < 0) error = take_error(L);
    else if (PyErr_Occurred()) PyErr_Clear(); /* a Lua error came first */
    UNLOCKED(&c, release_kept(&p.j));
    if (error != NULL) {
        set_error(error);
        return result_error(L, &c);
    }
    leave(&c);
    if (status != LUA_OK) return lua_error(L);
    return lua_gettop(L);
}
