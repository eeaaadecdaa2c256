/* Threads, crossings, and the lending of Lua states.

   All fields that say who runs a Lua state are guarded by the GIL itself. A state is lent while its holder is inside Python:
   park() gives it to the first waiter, unpark() queues for it again. Waiters sleep on their own lock, without the GIL. */
#include "bridge.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct waiter {
    thread *thread;
    int granted; /* 1: the state is yours; -1: it closed */
    waiter *next;
};

__thread thread *current_thread;

extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle __attribute__((visibility("hidden")));

/* The exiting thread deletes its own Python thread state. This must run before the pthread keys are cleared, CPython's own
   among them; hence not a key destructor. */
static void thread_ends(void *p) {
    thread *t = (thread *)p;
    if (t->made && !is_shut && Py_IsInitialized()) {
        PyEval_RestoreThread(t->ts);
        PyGILState_Release(PyGILState_UNLOCKED);
    }
    free(t);
    current_thread = NULL;
}

thread *new_thread(void) {
    thread *t = (thread *)calloc(1, sizeof *t);
    if (t == NULL) Py_FatalError("moontensor: no memory for a thread record");
    if (__cxa_thread_atexit_impl(thread_ends, t, &__dso_handle) != 0) Py_FatalError("moontensor: no thread exit hook");
    return current_thread = t;
}

void thread_needs_state(thread *t) {
    PyThreadState *ts = PyGILState_GetThisThreadState();
    if (ts == NULL) {
        PyGILState_Ensure(); /* never released: the state is permanent */
        t->ts = PyEval_SaveThread();
        t->made = true;
    } else {
        t->ts = ts;
        t->foreign = true;
    }
}

/* ---- lending ---- */

void hand_over(state *S) {
    waiter *w = S->head;
    S->head = w->next;
    if (S->head == NULL) S->tail = NULL;
    S->holder = w->thread;
    w->granted = 1;
    PyThread_release_lock(w->thread->wake);
}

void close_waiters(state *S) {
    for (waiter *w = S->head; w != NULL;) {
        waiter *next = w->next; /* it is gone once its thread wakes, but that needs the GIL, which is ours */
        w->granted = -1;
        PyThread_release_lock(w->thread->wake);
        w = next;
    }
    S->head = S->tail = NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void unlink_waiter(state *S, waiter *w) {
    waiter **p = &S->head, *last = NULL;
    while (*p != NULL && *p != w) {
        last = *p;
        p = &(*p)->next;
    }
    if (*p == NULL) return;
    *p = w->next;
    if (S->tail == w) S->tail = last;
}

int wait_for_state(state *S, thread *t, double timeout) {
    if (t->wake == NULL) {
        t->wake = PyThread_allocate_lock();
        if (t->wake == NULL) return 0;
        PyThread_acquire_lock(t->wake, 1);
    }
    waiter w = {t, 0, NULL};
    if (S->tail != NULL) S->tail->next = &w;
    else S->head = &w;
    S->tail = &w;
    double end = now() + timeout;
    for (;;) {
        PyThreadState *ts = PyEval_SaveThread();
        if (timeout < 0) {
            PyThread_acquire_lock(t->wake, 1);
        } else {
            double left = end - now();
            PyThread_acquire_lock_timed(t->wake, left > 0 ? (long long)(left * 1e6) : 0, 0);
        }
        PyEval_RestoreThread(ts);
        if (w.granted != 0) return w.granted;
        if (timeout >= 0 && now() >= end) {
            unlink_waiter(S, &w);
            return 0;
        }
    }
}

/* A forked child has the forking thread alone. Others may have been in the middle of anything: a Lua state that one of them ran
   is lost to the child, a lent one is as it was. */
static void in_forked_child(void) {
    for (state *S = states; S != NULL; S = S->next) {
        S->head = S->tail = NULL;
        S->borrowers = 0;
        if (S->holder != NULL && S->holder != current_thread) S->dead = S->stranded = true;
    }
}

void init_threads(void) { pthread_atfork(NULL, NULL, in_forked_child); }

/* The Lua state died while this thread was inside Python below it: there is nothing to return to. */
static void hang(const state *S) {
    if (S->stranded) {
        fputs("moontensor: a forked process cannot return to its Lua state, which another thread ran meanwhile\n", stderr);
        _exit(EXIT_FAILURE);
    }
    PyEval_SaveThread();
    for (;;) nanosleep(&(struct timespec){3600, 0}, NULL);
}

void take_back_slow(state *S, thread *t) {
    if (acquire_state(S, t, -1) < 0) hang(S);
}

/* ---- crossings ---- */

void between_crossings(cross *c) {
    if (atomic_load_explicit(&written_list, memory_order_relaxed) != NULL) bump_versions();
    if (atomic_load_explicit(&released_list, memory_order_relaxed) != NULL) drop_released();
    if (c->S->nburied != 0 || c->S->nunref != 0) drain(c->S, c->L);
}

/* A thread that came to Lua from Python by a road that is not ours (ctypes, a host's own embedding) may or may not hold the
   GIL. The stable ABI has no way to ask but this. */
bool holds_gil(thread *t) {
    if (t->top != NULL) return false;
    PyGILState_STATE was = PyGILState_Ensure();
    PyGILState_Release(was);
    return was == PyGILState_LOCKED;
}

/* ---- what finalizers leave behind ---- */

void bury(state *S, PyObject *o) {
    if (is_shut) return; /* inert: the interpreter is past its exit work */
    S->buried[S->nburied++] = o;
    atomic_fetch_add_explicit(&live_queued, 1, memory_order_relaxed);
}

void queue_unref(state *S, int ref) {
    if (S->nunref == S->unref_room) {
        size_t room = S->unref_room ? 2 * S->unref_room : 64;
        int *p = (int *)realloc(S->unref, room * sizeof *p);
        if (p == NULL) return; /* the registry slot stays taken until the state closes */
        S->unref = p;
        S->unref_room = room;
    }
    S->unref[S->nunref++] = ref;
}

/* Takes each queue out before working on it: a decref can run any code, and come back here. */
void drain(state *S, lua_State *L) {
    while (S->nburied != 0 || S->nunref != 0) {
        while (S->nburied != 0) {
            PyObject *o = S->buried[--S->nburied];
            atomic_fetch_sub_explicit(&live_queued, 1, memory_order_relaxed);
            Py_DECREF(o);
        }
        while (S->nunref != 0) luaL_unref(L, LUA_REGISTRYINDEX, S->unref[--S->nunref]);
    }
}

static state *graves; /* GIL */

void state_decref(state *S) {
    if (--S->refs != 0) return;
    free(S->buried);
    free(S->unref);
    free(S->attributes);
    S->buried = NULL;
    S->unref = NULL;
    S->attributes = NULL;
    S->room = S->unref_room = 0;
    S->next = graves; /* finalizers of Lua that run after the sentinel's find it dead, not freed */
    graves = S;
}

/* ---- coroutines for callbacks from foreign threads ---- */

/* Keeps a few made beforehand: a foreign thread cannot make one, for lua_newthread may raise. */
int fill_spares(lua_State *L) {
    state *S = (state *)lua_touserdata(L, 1);
    while (S->spares < 4) {
        lua_State *co = lua_newthread(L);
        int ref = luaL_ref(L, LUA_REGISTRYINDEX);
        S->spare_ref[S->spares] = ref;
        S->spare[S->spares++] = co;
    }
    return 0;
}

lua_State *borrow_coroutine(state *S, int *ref) {
    if (S->spares == 0) return NULL;
    lua_State *L = S->spare[--S->spares];
    *ref = S->spare_ref[S->spares];
    if (S->spares == 0) {
        lua_pushcfunction(L, fill_spares);
        lua_pushlightuserdata(L, S);
        if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_settop(L, 0);
    }
    return L;
}

void return_coroutine(state *S, lua_State *L, int ref) {
    lua_settop(L, 0);
    if (S->spares < 8) {
        S->spare_ref[S->spares] = ref;
        S->spare[S->spares++] = L;
    } else {
        luaL_unref(L, LUA_REGISTRYINDEX, ref);
    }
}
