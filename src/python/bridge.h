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

enum { TRACEBACK_SIZE = 4096 };

/* one per OS thread that ever crossed; its Python thread state is permanent */
typedef struct thread {
    PyThreadState *ts;
    bool made;               /* we made ts, and delete it when the thread ends */
    bool gil;                /* it holds the GIL, as far as crossings and callbacks of ours go */
    bool foreign;            /* it had a Python thread state before it met us: it may hold the GIL without our knowing */
    int hold;                /* depth of py.hold */
    cross *top;              /* innermost crossing */
    PyThread_type_lock wake; /* what it waits on for a Lua state */
    char traceback[TRACEBACK_SIZE]; /* of the last Lua error in a callback */
} thread;

typedef struct waiter waiter;

/* one per lua_State */
struct state {
    lua_State *main;      /* the main thread of the Lua state */
    thread *holder;       /* GIL: who runs Lua in it; NULL while lent out to nobody */
    waiter *head, *tail;  /* GIL: who waits for it, first come first served */
    bool closing;         /* GIL: nobody new gets in */
    bool dead;            /* GIL: the lua_State is gone */
    int borrowers;        /* GIL: frames of foreign threads alive on its coroutines */
    int refs;             /* GIL: the lua_State itself, and each Lua value that Python holds */
    lua_State *spare[8];  /* holder: coroutines ready for callbacks from foreign threads */
    int spare_ref[8], spares;
    PyObject **buried;    /* holder: references that finalizers let go; room for every live proxy, so burying cannot fail */
    size_t nburied, room, proxies;
    int *unref;           /* GIL: registry slots of Lua values that Python let go */
    size_t nunref, unref_room;
    double callback_timeout; /* seconds a foreign thread waits for the state */
    struct method_entry *methods; /* holder: what is known of attributes, see method.c */
    state *next;          /* GIL: all live states */
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
HIDDEN void between_crossings(cross *c);   /* the rare work of enter(): drains, bumps, drops */
HIDDEN void enter(lua_State *L, state *S, cross *c);
HIDDEN void leave(cross *c);
HIDDEN void unpark(cross *c);
HIDDEN void drain(state *S, lua_State *L);

static inline thread *this_thread(void) {
    thread *t = current_thread;
    return likely(t != NULL) ? t : new_thread();
}
/* 1: S is ours; 0: timed out; -1: closed. GIL held on entry and exit. timeout < 0: none */
HIDDEN int acquire_state(state *S, thread *t, double timeout);
HIDDEN void close_waiters(state *S); /* GIL: S is dead; tells those who wait for it */
HIDDEN void hand_over(state *S); /* GIL: S, ours till now, goes to the first who waits for it */

static inline void park(cross *c) {
    if (likely(c->S->head == NULL)) c->S->holder = NULL;
    else hand_over(c->S);
}
HIDDEN lua_State *borrow_coroutine(state *S, int *ref);
HIDDEN void return_coroutine(state *S, lua_State *L, int ref);
HIDDEN int fill_spares(lua_State *L); /* upvalue 1 is the state; protected call */
HIDDEN void state_decref(state *S);
HIDDEN void bury(state *S, PyObject *o); /* finalizers: any moment, no GIL, holder only */
HIDDEN void queue_unref(state *S, int ref); /* GIL: registry slot to free at the next crossing of S */

/* ---- functions over the bridge ---- */

/* Every C function of the bridge is a closure with two upvalues: its state, and a blank proxy ready for the result. */
#define STATE(L) ((state *)lua_touserdata(L, lua_upvalueindex(1)))
#define BLANK lua_upvalueindex(2)
HIDDEN void new_proxy_metatable(lua_State *L, state *S); /* pushes it [raises] */
HIDDEN void push_proxy_metatable(lua_State *L);
HIDDEN int proxy_close(lua_State *L);
HIDDEN void push_function(lua_State *L, state *S, lua_CFunction f);
HIDDEN void set_functions(lua_State *L, state *S, const luaL_Reg *functions); /* into the table on top */
HIDDEN void make_blank(lua_State *L, state *S); /* [raises] before the crossing */
#define READY(L, S)                                                              \
    do {                                                                         \
        if (unlikely(!lua_touserdata(L, BLANK))) make_blank(L, S);               \
    } while (0)

/* End of a hot function: result is a new reference, or NULL with a Python error set. Leaves, and returns 1 or raises. */
HIDDEN int result(lua_State *L, cross *c, PyObject *value);
/* the same, but never converts: always a proxy */
HIDDEN int result_proxy(lua_State *L, cross *c, PyObject *value);
HIDDEN int result_none(lua_State *L, cross *c, int failed); /* no result; failed: a Python error is set */
HIDDEN int result_error(lua_State *L, cross *c);             /* leaves and raises the Python error */

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

/* ---- values (value.c) ---- */

typedef struct proxy {
    const void *magic;
    PyObject *o;     /* one reference; NULL once closed */
    int64_t charged; /* bytes charged to Lua's collector */
} proxy;
HIDDEN extern const char proxy_magic;

static inline proxy *to_proxy(lua_State *L, int i) {
    proxy *p = (proxy *)lua_touserdata(L, i);
    return p != NULL && lua_rawlen(L, i) == sizeof *p && p->magic == &proxy_magic ? p : NULL;
}
HIDDEN PyObject *numpy_scalar(PyObject *o); /* new reference to a Python int, float or bool, or NULL without an error */
HIDDEN PyObject *check_proxy(lua_State *L, int arg); /* borrowed; a closed or wrong value raises [raises] */

/* Lua to Python: a new reference, or NULL with a Python error set. Never raises a Lua error. Tables and functions are
   converted in a protected call. */
HIDDEN PyObject *to_python(lua_State *L, state *S, int i);
/* Python to Lua, inside a protected call only: pushes one value; o is borrowed [raises] */
HIDDEN void push_python(lua_State *L, state *S, PyObject *o);
HIDDEN void push_proxy(lua_State *L, state *S, PyObject *o); /* always a proxy; o is borrowed [raises] */
HIDDEN void push_item(lua_State *L, state *S, PyObject *o); /* push_python, but None is py.none [raises] */
/* scalars that need no allocation: true if pushed; o is borrowed */
HIDDEN bool push_scalar(lua_State *L, PyObject *o);
/* interned attribute name for the string at i: a new reference. *keyword: it is a Lua keyword and an underscore */
HIDDEN PyObject *attribute_name(lua_State *L, int i, bool *keyword);
HIDDEN bool is_kw(lua_State *L, int i); /* a table made by py.kw */
HIDDEN extern const char kw_metatable;   /* registry key of its metatable */
/* NULL with an error that Lua sees as a plain Lua error with a position: the fault is the Lua caller's */
HIDDEN PyObject *conversion_error(const char *format, ...);
/* an index: {…} becomes a key with slices */
HIDDEN PyObject *key_to_python(lua_State *L, state *S, int i);
HIDDEN PyObject *text_of(PyObject *o); /* what tostring shows: new reference or Python error */
HIDDEN void open_proxies(lua_State *L, state *S); /* [raises] */

/* ---- calls (call.c): arguments from index first to the top; end the crossing as result() does ---- */
HIDDEN int call_python(lua_State *L, cross *c, PyObject *callee, int first); /* takes callee */
HIDDEN int call_method(lua_State *L, state *S, PyObject *name, int first);   /* receiver at first; enters by itself */

/* methods fetched from a proxy (method.c) */
HIDDEN bool is_method(lua_State *L, int i);
HIDDEN int init_methods(void);
HIDDEN void close_methods(state *S);
HIDDEN void open_methods(lua_State *L, state *S); /* [raises] */
/* push the known method of that name, with proxy p at index 1; false: not known to be one. No GIL needed */
HIDDEN bool push_known_method(lua_State *L, state *S, proxy *p, int name);
/* attribute `value` of o was fetched: if it is a method of o's type, remember that, and say so */
HIDDEN bool learn_method(lua_State *L, state *S, PyObject *o, int name, PyObject *attribute, PyObject *value);
HIDDEN void forget_method(lua_State *L, state *S, PyObject *o, int name);
HIDDEN PyObject *method_to_python(lua_State *L, state *S, int i); /* the bound method: new reference or Python error */

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

/* ---- Lua in Python (callable.c) ---- */

/* a Lua value that Python holds: LuaFunction or Opaque */
typedef struct luaref {
    PyObject_HEAD
    PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
    state *S;
    int ref;
} luaref;
HIDDEN extern PyTypeObject *LuaFunctionType, *OpaqueType;
HIDDEN int init_callables(PyObject *module);
HIDDEN PyObject *new_luaref(lua_State *L, state *S, PyTypeObject *type, int i); /* protected call only */
HIDDEN PyObject *wrap_function(PyObject *luafunction); /* a real Python function over it; steals */
/* the luaref behind a Python object that came from Lua, or NULL; borrowed */
HIDDEN luaref *find_luaref(PyObject *o);

/* ---- exchange (exchange.c, torch.c, numpy.c) ---- */

/* what the native tensor at i becomes as an argument, by the codec: new reference or Python error. Never raises */
HIDDEN PyObject *tensor_to_python(lua_State *L, state *S, int i);
/* add to_torch, to_numpy, from and their kin; called once a state [raises] */
HIDDEN void open_exchange(lua_State *L, state *S);
HIDDEN int init_exchange(void); /* once a process, GIL held: 0 or -1 with a Python error */
/* bump torch's version counter for each storage written since the last crossing; called by enter() when any_written */
HIDDEN extern _Atomic(void *) written_list;
HIDDEN void bump_versions(void);
/* release what deleters without the GIL left behind; called by enter() when not empty */
HIDDEN extern _Atomic(void *) released_list;
HIDDEN void drop_released(void);

/* ---- lifetime (exit.c, module.c) ---- */

HIDDEN extern bool is_shut;    /* Python's exit work is done: everything that comes later is inert */
HIDDEN extern bool host_exits; /* py.init{exit = "host"}: the host calls py.shutdown() */
HIDDEN extern bool we_initialized; /* we started Python; otherwise we joined a running one */
HIDDEN extern pid_t main_pid;      /* the process that started it: a forked child does no exit work */
HIDDEN extern thread *main_thread; /* the thread that started it */
HIDDEN extern state *states;       /* GIL */
HIDDEN extern _Atomic int64_t live_proxies, live_callables, live_queued;
HIDDEN int close_state(lua_State *L);
HIDDEN void shut_down(state *S); /* S: the Lua state the caller runs in */

/* ---- parts of the module table (functions.c, iterate.c) [raises] ---- */

HIDDEN void open_functions(lua_State *L, state *S);
HIDDEN void open_iteration(lua_State *L, state *S);

#endif
