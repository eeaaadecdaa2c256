/* py.scope: closes the proxies that a function made, but for those it keeps or returns. They are linked through themselves, so
   that joining and leaving never allocates. */
#include "bridge.h"

enum { DEPTH = 4 }; /* of tables in which proxies are looked for */

scope *current_scope(state *S) { return S->scope->thread == current_thread ? S->scope : &S->root; }

static void keep_values(lua_State *L, const scope *s, int first, int depth);

/* The value at i outlives scope s: its proxies go to the scope around it. Allocates nothing. */
static void keep_value(lua_State *L, const scope *s, int i, int depth) {
    proxy *p = to_proxy(L, i);
    if (p != NULL) {
        if (p->link == NULL) return;
        leave_scope(p);
        add_to_scope(s->outer, p);
    } else if (lua_type(L, i) == LUA_TTABLE && depth < DEPTH && lua_checkstack(L, 3)) {
        i = lua_absindex(L, i);
        for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) keep_values(L, s, lua_gettop(L) - 1, depth + 1);
    }
}

static void keep_values(lua_State *L, const scope *s, int first, int depth) { /* from index first to the top */
    for (int i = first, top = lua_gettop(L); i <= top; i++) keep_value(L, s, i, depth);
}

static int keep_call(lua_State *L) {
    const scope *s = (const scope *)lua_touserdata(L, lua_upvalueindex(1));
    if (s->over) return luaL_error(L, "keep was called after its scope had ended");
    if (s->thread != current_thread) return luaL_error(L, "keep was called on another thread than its scope's");
    keep_values(L, s, 1, 0);
    return lua_gettop(L);
}

void close_scope(state *S, scope *s, cross *c) {
    while (s->first != NULL) { /* a decref can run any code, which may close others of the list */
        proxy *p = s->first;
        PyObject *o = p->o;
        leave_scope(p);
        uncharge(S, p);
        p->o = NULL;
        atomic_fetch_sub_explicit(&live_proxies, 1, memory_order_relaxed);
        if (c != NULL) UNLOCKED(c, Py_DECREF(o));
        else if (!is_shut) Py_DECREF(o);
    }
}

/*** py.scope(f) -> ...
Calls f(keep) and returns its results. The Python objects that came to Lua meanwhile are let go at the end, error or not, without
waiting for the collector: all but those that were returned or given to `keep(…)`, which passes its arguments through, tables of
them (four deep) included. Later use of the others raises "python object is closed". */
int py_scope(lua_State *L) {
    state *S = STATE(L);
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    scope *s = (scope *)lua_newuserdatauv(L, sizeof *s, 0);
    *s = (scope){.outer = S->scope, .thread = this_thread()};
    lua_insert(L, 1); /* stays alive below */
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, keep_call, 1);
    S->scope = s;
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    S->scope = s->outer;
    s->over = true;
    keep_values(L, s, 2, 0);
    if (s->first != NULL) {
        cross c;
        enter(L, S, &c);
        close_scope(S, s, &c);
        leave(&c);
    }
    if (status != LUA_OK) return lua_error(L);
    return lua_gettop(L) - 1;
}
