/* Internals of the CPython bridge. Compiled for the stable ABI of CPython 3.11; not linked to libpython.

   The rules every function here keeps:
   - A crossing is the time between enter() and leave(): the thread holds the GIL, and the Lua state is ours. Before Python
     code may run, park() lends the Lua state to whoever waits for it; unpark() takes it back.
   - No Lua call that may raise is made inside a crossing outside a protected call: a longjmp would leave with the GIL and with
     references. Hot functions convert scalars only and use the blank of their closure for anything else (see result());
     the others run their body through crossing(), which owns what keep() was given.
   - Finalizers never take the GIL: they bury references, and the next crossing drops them. */
#ifndef MOON_BRIDGE_H
#define MOON_BRIDGE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>
#include "moontensor.h"

/* exported since 3.9, in the limited API only since 3.12 */
PyAPI_FUNC(PyObject *) PyObject_Vectorcall(PyObject *, PyObject *const *, size_t, PyObject *);
PyAPI_FUNC(PyObject *) PyObject_VectorcallMethod(PyObject *, PyObject *const *, size_t, PyObject *);
#define VECTORCALL_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define HIDDEN __attribute__((visibility("hidden")))

extern const moon_api *moon; /* core's table */

/* ---- threads and states (thread.c) ---- */

typedef struct cross cross;
typedef struct state state;

enum { TENSORS_AUTO, TENSORS_TORCH, TENSORS_NUMPY, TENSORS_OWN };
enum { TRACEBACK_SIZE = 4096, RECENT = 16 };

/* one per OS thread that ever crossed; its Python thread state is permanent */
typedef struct thread {
    PyThreadState *ts;
    bool made;                      /* we made ts, and delete it when the thread ends */
    bool gil;                       /* it holds the GIL, as far as crossings and callbacks of ours go */
    bool foreign;                   /* it had a Python thread state before it met us: it may hold the GIL without our knowing */
    int hold;                       /* depth of py.hold */
    unsigned held;                  /* crossings made under it */
    cross *top;                     /* innermost crossing */
    PyThread_type_lock wake;        /* what it waits on for a Lua state */
    char traceback[TRACEBACK_SIZE]; /* of the last Lua error in a callback */
} thread;

typedef struct waiter waiter;

/* the proxies that py.scope closes at its end */
typedef struct scope {
    struct proxy *first;
    struct scope *outer;
    thread *thread; /* others that borrow the Lua state meanwhile make proxies of their own */
    bool over;
} scope;

/* one per lua_State */
struct state {
    lua_State *main;     /* the main thread of the Lua state */
    thread *holder;      /* GIL: who runs Lua in it; NULL while lent out to nobody */
    waiter *head, *tail; /* GIL: who waits for it, first come first served */
    bool open;           /* its functions are all there */
    bool closing;        /* GIL: nobody new gets in */
    bool dead;           /* GIL: the lua_State is gone */
    bool stranded;       /* GIL: in another process, the one that this one was forked from */
    int borrowers;       /* GIL: frames of foreign threads alive on its coroutines */
    int refs;            /* GIL: the lua_State itself, and each Lua value that Python holds */
    lua_State *spare[8]; /* holder: coroutines ready for callbacks from foreign threads */
    int spare_ref[8], spares;
    PyObject **buried; /* holder: references that finalizers let go; room for every live proxy, so burying cannot fail */
    size_t nburied, room, proxies;
    int *unref; /* GIL: registry slots of Lua values that Python let go */
    size_t nunref, unref_room;
    int64_t charged, pending; /* holder: bytes behind live proxies; those that came since the last collection */
    scope root, *scope;       /* holder: all open proxies that no py.scope made; the innermost scope */
    int64_t gc_threshold;     /* see charge.c */
    double gc_step;
    int tensors;                  /* what native tensors become as arguments: TENSORS_AUTO, ... */
    bool decode, adapted;         /* results that are tensors become native ones; there are adapters of the user's */
    double callback_timeout;      /* seconds a foreign thread waits for the state */
    struct attribute *attributes; /* holder: see method.c */
    PyObject *type_died;          /* the callback of their weak references */
    struct proxy *recent[RECENT]; /* holder: the newest proxies that no finalizer ran for yet */
    uint8_t next_recent;
    struct proxy *indexed, *called; /* holder: the last ones that were, known to be proxies; their finalizer clears these */
    state *next;                    /* GIL: all live states */
};

struct cross {
    state *S;
    lua_State *L;
    cross *prev;
    thread *thread;
    bool took;       /* it took the GIL, and so gives it back */
    bool gil_before; /* thread->gil on entry */
};

extern __thread thread *current_thread __attribute__((tls_model("initial-exec"), visibility("hidden")));
HIDDEN thread *new_thread(void);
HIDDEN void thread_needs_state(thread *t); /* GIL not held: gives the thread its permanent Python thread state */
HIDDEN bool holds_gil(thread *t);
HIDDEN void between_crossings(cross *c); /* the rare work of enter(): drains, bumps, drops */
HIDDEN void take_back_slow(state *S, thread *t);
HIDDEN void drain(state *S, lua_State *L);
/* torch's version counters to bump, references to drop: what was written, or let go, without the GIL (exchange) */
HIDDEN extern _Atomic(void *) written_list, released_list;

static inline thread *this_thread(void) {
    thread *t = current_thread;
    return likely(t != NULL) ? t : new_thread();
}

static inline void enter(lua_State *L, state *S, cross *c) {
    thread *t = this_thread();
    if (unlikely(t->ts == NULL)) thread_needs_state(t);
    c->gil_before = t->gil;
    c->took = !t->gil && !(unlikely(t->foreign) && holds_gil(t));
    if (c->took) PyEval_RestoreThread(t->ts);
    t->gil = true;
    S->holder = t; /* a host may have moved the state to another thread between crossings */
    c->S = S;
    c->L = L;
    c->thread = t;
    c->prev = t->top;
    t->top = c;
    if (unlikely(S->nburied != 0 || S->nunref != 0 || atomic_load_explicit(&written_list, memory_order_relaxed) != NULL ||
                 atomic_load_explicit(&released_list, memory_order_relaxed) != NULL)) {
        between_crossings(c);
    }
}

/* Under py.hold nobody else would ever get the GIL: every 256th crossing honours a pending request for it. */
static inline void leave(cross *c) {
    thread *t = c->thread;
    t->top = c->prev;
    t->gil = c->gil_before;
    if (c->took) PyEval_SaveThread();
    else if (t->hold != 0 && unlikely((++t->held & 255) == 0)) PyEval_RestoreThread(PyEval_SaveThread());
}

/* 1: S is ours; 0: timed out; -1: closed. GIL held on entry and exit. timeout < 0: none */
HIDDEN int wait_for_state(state *S, thread *t, double timeout);
static inline int acquire_state(state *S, thread *t, double timeout) {
    if (unlikely(S->dead)) return -1;
    if (unlikely(S->holder != NULL)) return wait_for_state(S, t, timeout);
    S->holder = t;
    return 1;
}
HIDDEN void init_threads(void);      /* once a process */
HIDDEN void close_waiters(state *S); /* GIL: S is dead; tells those who wait for it */
HIDDEN void hand_over(state *S);     /* GIL: S, ours till now, goes to the first who waits for it */

static inline void lend(state *S) {
    if (likely(S->head == NULL)) S->holder = NULL;
    else hand_over(S);
}

static inline void park(cross *c) { lend(c->S); }

/* S was lent, and is t's again; for who has no crossing of its own, a conversion in the middle of one, too */
static inline void take_back(state *S, thread *t) {
    if (likely(S->holder == NULL && !S->dead)) S->holder = t;
    else take_back_slow(S, t);
}

static inline void unpark(cross *c) { take_back(c->S, c->thread); }
HIDDEN lua_State *borrow_coroutine(state *S, int *ref);
HIDDEN void return_coroutine(state *S, lua_State *L, int ref);
HIDDEN int fill_spares(lua_State *L); /* upvalue 1 is the state; protected call */
HIDDEN void state_decref(state *S);
HIDDEN void bury(state *S, PyObject *o);    /* finalizers: any moment, no GIL, holder only */
HIDDEN void queue_unref(state *S, int ref); /* GIL: registry slot to free at the next crossing of S */

/* a Python object in Lua */
typedef struct proxy {
    const void *magic;
    PyObject *o;                /* one reference; NULL once closed */
    int64_t charged;            /* bytes charged to Lua's collector */
    struct proxy *next, **link; /* in its scope */
    bool shared;                /* the attribute of a module, given again at the next read: not for one reader to close */
    uint8_t slot;               /* among the recent ones of its state */
    bool finalized;             /* by Lua; it may still be used, while the state closes */
} proxy;

/* ---- functions over the bridge ---- */

/* Every C function of the bridge is a closure over its site: the state, and a blank proxy ready for the result, which upvalue 2
   anchors. */
typedef struct site {
    state *S;
    struct proxy *blank; /* NULL once used */
} site;
#define SITE(L) ((site *)lua_touserdata(L, lua_upvalueindex(1)))
#define STATE(L) (SITE(L)->S)
HIDDEN void new_proxy_metatable(lua_State *L, state *S); /* pushes it [raises] */
HIDDEN void push_proxy_metatable(lua_State *L);
HIDDEN int proxy_close(lua_State *L);
HIDDEN void push_site(lua_State *L, state *S); /* the two upvalues [raises] */
HIDDEN void push_function(lua_State *L, state *S, lua_CFunction f);
HIDDEN void set_functions(lua_State *L, state *S, const luaL_Reg *functions); /* into the table on top */
HIDDEN void make_blank(lua_State *L, site *k);                                /* [raises] before the crossing */
HIDDEN void reserve_burial(lua_State *L, state *S); /* room for one reference more than there are proxies [raises] */
static inline void ready(lua_State *L, site *k) {   /* [raises] before the crossing */
    if (unlikely(k->blank == NULL || k->S->dead)) make_blank(L, k);
}
#define READY(L, S) ready(L, SITE(L))

/* End of a hot function: result is a new reference, or NULL with a Python error set. Leaves, and returns 1 or raises. */
HIDDEN int result_object(lua_State *L, cross *c, PyObject *value);
static inline int result(lua_State *L, cross *c, PyObject *value);
/* the same, but never converts: always a proxy */
HIDDEN int result_proxy(lua_State *L, cross *c, PyObject *value);
HIDDEN int result_none(lua_State *L, cross *c, int failed); /* no result; failed: a Python error is set */
HIDDEN int result_error(lua_State *L, cross *c);            /* leaves and raises the Python error */

/* The comfortable form for everything that is not hot. body runs inside a crossing and inside a protected call, on the same
   arguments (indices 1..n): it may call any Lua function, and returns its number of results, or -1 with a Python error set.
   References handed to keep() are dropped at the end, whatever happens. */
typedef struct job {
    state *S;
    cross *c;
    PyObject **kept;
    size_t nkept, room;
    PyObject *inline_kept[16];
    void *context;
} job;
typedef int (*job_body)(lua_State *L, job *j);
HIDDEN int crossing(lua_State *L, job_body body, void *context);
HIDDEN void release_kept(job *j);
HIDDEN PyObject *keep(job *j, PyObject *o); /* takes the reference; NULL stays NULL, and NULL with MemoryError on no room */

/* run Python code while the Lua state is lent */
#define UNLOCKED(c, statement) \
    do {                       \
        park(c);               \
        statement;             \
        unpark(c);             \
    } while (0)

/* ---- memory behind proxies (charge.c, scope.c) ---- */

HIDDEN scope *current_scope(state *S);
static inline void add_to_scope(scope *s, proxy *p) {
    p->next = s->first;
    p->link = &s->first;
    if (s->first != NULL) s->first->link = &p->next;
    s->first = p;
}
/* lets go of all that is left in it; GIL held, c NULL where the Lua state is closing */
HIDDEN void close_scope(state *S, scope *s, cross *c);
static inline void join_scope(state *S, proxy *p) { add_to_scope(likely(S->scope == &S->root) ? &S->root : current_scope(S), p); }
static inline void leave_scope(proxy *p) {
    if (unlikely(p->link == NULL)) return;
    *p->link = p->next;
    if (p->next != NULL) p->next->link = p->link;
    p->link = NULL;
}
HIDDEN int py_scope(lua_State *L);

HIDDEN void charge(state *S, proxy *p);              /* p->o has just come: inside a crossing */
HIDDEN void collect_charged(lua_State *L, state *S); /* outside crossings: runs the collector if it is time */
HIDDEN int py_gc(lua_State *L);
/* A call failed. If C code ran out of memory: collects Lua's garbage, clears the error, and says that trying again makes sense. */
HIDDEN bool freed_memory(lua_State *L, cross *c);
#define UNLOCKED_RETRY(L, c, value, call)                                                       \
    do {                                                                                        \
        UNLOCKED(c, value = call);                                                              \
        if (unlikely(value == NULL) && unlikely(freed_memory(L, c))) UNLOCKED(c, value = call); \
    } while (0)
static inline void uncharge(state *S, proxy *p) {
    S->charged -= p->charged;
    p->charged = 0;
}

/* ---- values (value.c) ---- */
HIDDEN extern const char proxy_magic;

/* What a proxy holds, inside a crossing: a new reference. What came before, a Lua allocation or the drain on entry, may have run
   code that closed it: then leaves and raises. A PyObject read before that is not to be used after it. */
static inline PyObject *own(lua_State *L, cross *c, const proxy *p) {
    PyObject *o = p->o;
    if (unlikely(o == NULL)) {
        leave(c);
        luaL_error(L, "python object is closed");
    }
    Py_INCREF(o);
    return o;
}

static inline proxy *to_proxy(lua_State *L, int i) {
    proxy *p = (proxy *)lua_touserdata(L, i);
    return p != NULL && lua_rawlen(L, i) == sizeof *p && p->magic == &proxy_magic ? p : NULL;
}
HIDDEN PyObject *numpy_scalar(PyObject *o);          /* new reference to a Python int, float or bool, or NULL without an error */
HIDDEN PyObject *check_proxy(lua_State *L, int arg); /* borrowed; a closed or wrong value raises [raises] */

/* Lua to Python: a new reference, or NULL with a Python error set. Never raises a Lua error. Tables and functions are
   converted in a protected call. */
HIDDEN PyObject *other_to_python(lua_State *L, state *S, int i, int type);
static inline PyObject *typed_to_python(lua_State *L, state *S, int i, int type) {
    if (type == LUA_TNUMBER) {
        return lua_isinteger(L, i) ? PyLong_FromLongLong(lua_tointeger(L, i)) : PyFloat_FromDouble(lua_tonumber(L, i));
    }
    if (type == LUA_TUSERDATA) {
        proxy *p = to_proxy(L, i);
        if (likely(p != NULL && p->o != NULL)) {
            Py_INCREF(p->o);
            return p->o;
        }
    }
    return other_to_python(L, S, i, type);
}
static inline PyObject *to_python(lua_State *L, state *S, int i) { return typed_to_python(L, S, i, lua_type(L, i)); }
/* Python to Lua, inside a protected call only: pushes one value; o is borrowed [raises] */
HIDDEN void push_python(lua_State *L, state *S, PyObject *o);
HIDDEN void push_proxy(lua_State *L, state *S, PyObject *o); /* always a proxy; o is borrowed [raises] */
HIDDEN bool decodes(state *S, PyObject *o);                  /* py.codec{decode = true}: should o become a native tensor? */
HIDDEN void decode_top(lua_State *L, state *S);              /* the proxy on top becomes one, where it can [raises] */
HIDDEN void push_item(lua_State *L, state *S, PyObject *o);  /* push_python, but None is py.none [raises] */
/* scalars that need no allocation: true if pushed; o is borrowed */
static inline bool push_scalar(lua_State *L, PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    if (type == &PyFloat_Type) {
        lua_pushnumber(L, PyFloat_AsDouble(o));
    } else if (type == &PyLong_Type) {
        int overflow;
        long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) return false;
        lua_pushinteger(L, v);
    } else if (o == Py_None) {
        lua_pushnil(L);
    } else if (type == &PyBool_Type) {
        lua_pushboolean(L, o == Py_True);
    } else {
        return false;
    }
    return true;
}
static inline int result(lua_State *L, cross *c, PyObject *value) {
    if (unlikely(value == NULL || !push_scalar(L, value))) return result_object(L, c, value);
    Py_DECREF(value);
    leave(c);
    return 1;
}
HIDDEN bool is_kw(lua_State *L, int i); /* a table made by py.kw */
HIDDEN extern const char kw_metatable;  /* registry key of its metatable */
/* NULL with an error that Lua sees as a plain Lua error with a position: the fault is the Lua caller's */
HIDDEN PyObject *conversion_error(const char *format, ...);
/* an index: {…} becomes a key with slices */
HIDDEN PyObject *key_to_python(lua_State *L, state *S, int i);
HIDDEN PyObject *text_of(PyObject *o); /* what tostring shows: new reference or Python error */
struct attribute;
HIDDEN PyObject *strip_underscore(PyObject *name);                       /* new reference */
HIDDEN PyObject *get_named(PyObject *o, const struct attribute *a);      /* with hints on failure; lent */
HIDDEN PyObject *get_missing(PyObject *o, PyObject *name, bool keyword); /* its second half */
HIDDEN int index_item(lua_State *L, state *S, proxy *p);                 /* p[key at 2]: ends as result() does */
HIDDEN void open_proxies(lua_State *L, state *S);                        /* [raises] */

/* ---- calls (call.c): arguments from index first to the top; end the crossing as result() does ---- */
HIDDEN int call_python(lua_State *L, cross *c, PyObject *callee, int first); /* takes callee */
HIDDEN int call_method(lua_State *L, state *S, PyObject *name,
                       const proxy *self); /* self at index 2, arguments from 3; enters by itself */

/* ---- hints (hint.c): to the pending exception, whose own text stays as it is ---- */
HIDDEN void add_lua_hint(const char *hint);
HIDDEN void hint_call(lua_State *L, cross *c, int first); /* the arguments are those from index first to the top */
HIDDEN void hint_item(lua_State *L, int key);
HIDDEN void hint_operator(lua_State *L);                                     /* the operands are at 1 and 2 */
HIDDEN void hint_comparison(cross *c, const char *name);                     /* of the elementwise function in py */
HIDDEN void hint_attribute(PyObject *o, const char *format, PyObject *name); /* format: at most two %U */

/* ---- attribute names and methods (method.c) ---- */

/* What is known of an attribute name on a type. Its Lua string is anchored, so the address is the name. */
typedef struct attribute {
    PyTypeObject *type;  /* borrowed: a class must be free to die; NULL once it did */
    PyObject *weak;      /* tells when; one reference */
    const void *address; /* of the Lua string */
    PyObject *name;      /* interned, lives as long as the process */
    bool keyword;        /* a Lua keyword and an underscore: `end_` */
    bool method;         /* a method that the type itself has */
} attribute;
/* the entry for the string at index i, made if need be; NULL with a Python error. Names too long to intern use *own */
HIDDEN attribute *find_attribute(lua_State *L, state *S, PyTypeObject *type, int i, attribute *own);
HIDDEN void method_is_shadowed(lua_State *L, state *S, PyTypeObject *type, int i); /* the name at index i */
HIDDEN void forget_own_name(attribute *a, attribute *own);
HIDDEN bool is_method(lua_State *L, int i);
HIDDEN PyObject *method_to_python(lua_State *L, state *S, int i); /* the bound method: new reference or Python error */
HIDDEN int init_methods(void);
HIDDEN void open_methods(lua_State *L, state *S); /* [raises] */
HIDDEN void close_methods(state *S);
HIDDEN int proxy_index(lua_State *L); /* upvalue 3: the table of method values */

/* ---- errors (error.c) ---- */

HIDDEN extern PyObject *LuaError; /* moontensor.LuaError */
/* NULL-safe: the pending Python error as an exception object, with the Lua stack noted on it */
HIDDEN PyObject *take_error(lua_State *L);
/* the message of a conversion_error, for luaL_error; false for any other exception */
HIDDEN bool conversion_text(PyObject *exception, char *buffer, size_t size);
HIDDEN void set_error(PyObject *exception); /* takes the reference */
/* The Lua value that a LuaError carries, if it came from this state: pushes it and returns true; never raises */
HIDDEN bool push_lua_error_value(lua_State *L, state *S, PyObject *exception);
/* Set the Python error for the Lua error value on top of the stack; pops it. Protected or not. */
HIDDEN void set_lua_error(lua_State *L, state *S);
HIDDEN int note_traceback(lua_State *L); /* a message handler: keeps the Lua stack for set_lua_error */
HIDDEN int init_errors(PyObject *module);
/* [raises] */
HIDDEN int raise_closed(lua_State *L, int arg);
/* with the position of the innermost Lua function that is not ours [raises] */
HIDDEN int raise_text(lua_State *L, const char *text);
/* the error on top, of a function that only C called: Lua gave it no position, and no name or a wrong one [raises] */
HIDDEN int raise_as_ours(lua_State *L);

/* ---- Lua in Python (callable.c) ---- */

/* a Lua value that Python holds: LuaFunction or Opaque */
typedef struct luaref {
    PyObject_HEAD PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
    state *S;
    int ref;
} luaref;
HIDDEN extern PyTypeObject *LuaFunctionType, *OpaqueType;
HIDDEN int init_callables(PyObject *module);
HIDDEN PyObject *new_luaref(lua_State *L, state *S, PyTypeObject *type, int i); /* protected call only */
/* a real Python function over it, with the parameters of the Lua function on top of the stack; takes luafunction */
HIDDEN PyObject *wrap_function(lua_State *L, PyObject *luafunction);
/* the luaref behind a Python object that came from Lua, or NULL; borrowed */
HIDDEN luaref *find_luaref(PyObject *o);

/* ---- exchange (exchange.c, torch.c, numpy.c) ---- */

/* what the native tensor at i becomes as an argument, by the codec: new reference or Python error. Never raises */
HIDDEN PyObject *tensor_to_python(lua_State *L, state *S, int i);
/* add to_torch, to_numpy, from and their kin; called once a state [raises] */
HIDDEN void open_exchange(lua_State *L, state *S);
HIDDEN int init_exchange(void); /* once a process, GIL held: 0 or -1 with a Python error */
/* bump torch's version counter for each storage written since the last crossing; called by enter() when any_written */
HIDDEN void bump_versions(void);
/* release what deleters without the GIL left behind; called by enter() when not empty */
HIDDEN void drop_released(void);

/* ---- lifetime (exit.c, module.c) ---- */

HIDDEN extern _Atomic bool is_shut; /* Python's exit work is done: everything that comes later is inert */
HIDDEN extern _Atomic bool is_gone; /* Py_FinalizeEx was called: there is no Python any more */
HIDDEN int init_exit(void);         /* once a process */
HIDDEN extern bool host_exits;      /* py.init{exit = "host"}: the host calls py.shutdown() */
HIDDEN extern bool we_initialized;  /* we started Python; otherwise we joined a running one */
HIDDEN extern pid_t main_pid;       /* the process that started it: a forked child does no exit work */
HIDDEN extern thread *main_thread;  /* the thread that started it */
HIDDEN extern state *states;        /* GIL */
HIDDEN extern _Atomic int64_t live_proxies, live_callables, live_queued;
HIDDEN int init_signals(void);          /* once a process, on the main thread, GIL held */
HIDDEN void keep_signals(void);         /* now and then: see signal.c */
HIDDEN void restore_signals(void);      /* when Python's exit work begins */
HIDDEN void state_is_closing(state *S); /* lua_close began: nothing of ours is finalized yet */
HIDDEN int close_state(lua_State *L);
HIDDEN void leave_process(state *S); /* the same, and nothing of Python runs any more */
HIDDEN void shut_down(state *S);     /* S: the Lua state the caller runs in */

/* ---- parts of the module table (functions.c, iterate.c) [raises] ---- */

HIDDEN void open_functions(lua_State *L, state *S);
HIDDEN void open_iteration(lua_State *L, state *S);

#endif
