/* The end of Lua states and of the process. Python is never finalized by us: its exit work (join its non-daemon threads, run its
   atexit callbacks, flush its streams) is done once, when the last Lua state closes or in os.exit; what comes later is inert. */
#include "bridge.h"
#include <stdlib.h>
#include <time.h>

_Atomic bool is_shut, is_gone;
bool host_exits;
state *states;

static void call_if_loaded(const char *module, const char *function) {
    PyObject *m = PyDict_GetItemString(PyImport_GetModuleDict(), module);
    if (m == NULL) return;
    PyObject *r = PyObject_CallMethod(m, function, NULL);
    if (r == NULL) PyErr_Print();
    Py_XDECREF(r);
}

static void flush(const char *stream) {
    PyObject *f = PySys_GetObject(stream);
    if (f == NULL || f == Py_None) return;
    PyObject *r = PyObject_CallMethod(f, "flush", NULL);
    if (r == NULL) PyErr_Clear();
    Py_XDECREF(r);
}

/* Python's own _shutdown would join the very thread that called os.exit */
static const char join_others[] =
    "import threading as _t\n"
    "for _x in _t.enumerate():\n"
    "    if _x is not _t.current_thread() and _x is not _t.main_thread() and not _x.daemon: _x.join()\n";

static void join_threads(void) {
    if (this_thread() == main_thread) {
        call_if_loaded("threading", "_shutdown");
        return;
    }
    PyObject *names = PyDict_New(), *code = Py_CompileString(join_others, "<moontensor>", Py_file_input);
    PyObject *r = names && code ? PyEval_EvalCode(code, names, names) : NULL;
    if (r == NULL) PyErr_Print();
    Py_XDECREF(names);
    Py_XDECREF(code);
    Py_XDECREF(r);
}

/* In the C library's exit: no Python thread runs any more while the statics of torch and others are taken down. Registered
   when the exit work is done, so it comes before all that was registered earlier. */
static bool stopped; /* the thread that exits has the GIL for good */

static void stop_the_world(void) {
    if (!is_shut || stopped) return;
    thread *t = this_thread();
    if (t->gil) return;
    if (t->ts == NULL) thread_needs_state(t);
    PyEval_RestoreThread(t->ts);
    t->gil = true;
}

static void exit_work(void) {
    restore_signals();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    join_threads();
    PyObject *atexit_module = PyImport_ImportModule("atexit");
    if (atexit_module != NULL) call_if_loaded("atexit", "_run_exitfuncs");
    else PyErr_Clear();
    Py_XDECREF(atexit_module);
    flush("stdout");
    flush("stderr");
    PyErr_Restore(type, value, traceback);
}

/* for who is outside crossings; had: for give_gil_back */
static bool take_gil(thread *t) {
    if (t->ts == NULL) thread_needs_state(t);
    bool had = t->gil;
    if (!had) {
        PyEval_RestoreThread(t->ts);
        t->gil = true;
    }
    return had;
}

static void give_gil_back(thread *t, bool had) {
    if (had) return;
    t->gil = false;
    PyEval_SaveThread();
}

/* S: the Lua state this thread runs, lent meanwhile, for Python's threads may need it; or NULL */
static void shut_down_from(state *S) {
    if (is_shut || !we_initialized || getpid() != main_pid) return;
    thread *t = this_thread();
    bool had = take_gil(t);
    bool lent = S != NULL && S->holder == t;
    if (lent) lend(S);
    exit_work();
    if (lent) acquire_state(S, t, -1);
    is_shut = true;
    give_gil_back(t, had);
    atexit(stop_the_world);
}

void shut_down(state *S) { shut_down_from(S); }

static bool other_threads(void) {
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
    PyObject *count = module ? PyObject_CallMethod(module, "active_count", NULL) : NULL;
    long n = count ? PyLong_AsLong(count) : 1;
    Py_XDECREF(count);
    PyErr_Clear();
    return n > 1;
}

/* os.exit: the GIL is kept to the end, so that no daemon thread gets on while finalizers of Lua and the C library's exit run. One
   that is inside a library without it has a moment to come to the library's end. */
void leave_process(state *S) {
    shut_down_from(S);
    if (!we_initialized || is_gone || getpid() != main_pid) return;
    take_gil(this_thread());
    stopped = true;
    if (other_threads()) nanosleep(&(struct timespec){0, 20000000}, NULL);
}

static void wait_for_borrowers(state *S, thread *t) {
    for (double ms = 0; S->borrowers > 0 && ms < 1000 * S->callback_timeout; ms++) {
        lend(S);
        PyThreadState *ts = PyEval_SaveThread();
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        PyEval_RestoreThread(ts);
        acquire_state(S, t, -1);
    }
}

static bool is_last(state *S) { return states == S && S->next == NULL; }

/* At the end of Py_FinalizeEx, which a host may call while Lua states are open: what they hold of Python is closed, and their way
   to it. The memory behind it stays where it is. */
static void python_is_gone(void) {
    is_gone = is_shut = true;
    for (state *S = states; S != NULL; S = S->next) {
        S->dead = true;
        for (scope *s = S->scope; s != NULL; s = s->outer) close_scope(S, s, NULL);
    }
}

int init_exit(void) { return Py_AtExit(python_is_gone); }

void state_is_closing(state *S) {
    if (host_exits || is_shut || is_gone || !we_initialized) return;
    thread *t = this_thread();
    bool had = take_gil(t);
    S->holder = t;
    if (is_last(S)) shut_down_from(S);
    give_gil_back(t, had);
}

/* lua_close: finalizer of the state's sentinel, which runs after those of all proxies */
int close_state(lua_State *L) {
    state **box = (state **)lua_touserdata(L, 1), *S = *box;
    if (S == NULL) return 0;
    *box = NULL;
    if (is_gone) return 0; /* S stays: finalizers of Lua may come still */
    thread *t = this_thread();
    bool had = take_gil(t);
    S->holder = t;
    if (!host_exits && is_last(S)) shut_down_from(S);
    S->closing = true;
    if (!is_shut) wait_for_borrowers(S, t);
    drain(S, L);
    close_scope(S, &S->root, NULL); /* made by finalizers of this very closing: theirs are not to come */
    S->dead = true;
    close_waiters(S);
    for (state **p = &states; *p != NULL; p = &(*p)->next) {
        if (*p == S) {
            *p = S->next;
            break;
        }
    }
    close_methods(S);
    S->main = NULL;
    state_decref(S);
    give_gil_back(t, had);
    return 0;
}
