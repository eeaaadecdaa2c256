/* Ctrl-C. While the main thread is inside Python, SIGINT raises KeyboardInterrupt there, promptly, for our handler interrupts the
   system calls that Python waits in; while it runs Lua, it is what it was before us: under stock lua, the error "interrupted!".

   lua sets its handler anew for every chunk that it runs (one a line of its prompt), and Python code may set one too: ours is put
   back where an object comes to Lua, if some time has passed. */
#include "bridge.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

static struct sigaction before; /* whose turn it is while Lua runs */
static void (*of_python)(int);  /* Python's own C handler, which may come back by signal.signal */
static bool installed;
static pthread_t main_pthread;

/* Main thread, any moment: is Python code running in the innermost crossing? A crossing lends the Lua state exactly then. */
static bool inside_python(void) {
    thread *t = main_thread;
    cross *c = t != NULL ? t->top : NULL;
    return c != NULL && __atomic_load_n(&c->S->holder, __ATOMIC_RELAXED) != t;
}

static void on_sigint(int number) {
    int saved = errno;
    if (current_thread != main_thread) pthread_kill(main_pthread, number);
    else if (inside_python()) PyErr_SetInterrupt();
    else if (before.sa_handler == SIG_DFL) {
        signal(number, SIG_DFL);
        raise(number);
    } else if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, NULL, NULL);
    } else if (before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    }
    errno = saved;
}

static void install(void) {
    struct sigaction ours = {.sa_handler = on_sigint}, now;
    if (sigaction(SIGINT, NULL, &now) != 0 || now.sa_handler == on_sigint || now.sa_handler == SIG_IGN) return;
    if (now.sa_handler != of_python) before = now;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGINT, &ours, NULL);
}

/* Python has a handler of its own from here on, though not the system's: PyErr_SetInterrupt runs it. */
int init_signals(void) {
    if (!we_initialized) return 0; /* a host of Python's has its handlers */
    PyObject *module = PyImport_ImportModule("signal");
    PyObject *handler = module ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    bool ignored = now.sa_handler == SIG_IGN; /* by nohup, say: then so it stays */
    PyObject *done = handler && !ignored ? PyObject_CallMethod(module, "signal", "iO", SIGINT, handler) : NULL;
    int failed = handler == NULL || (!ignored && done == NULL);
    if (done != NULL) {
        struct sigaction python;
        sigaction(SIGINT, &now, &python);
        of_python = python.sa_handler;
        main_pthread = pthread_self();
        installed = true;
        install();
    }
    Py_XDECREF(done);
    Py_XDECREF(handler);
    Py_XDECREF(module);
    return failed ? -1 : 0;
}

void keep_signals(void) {
    static struct timespec last;
    struct timespec now;
    if (!installed || current_thread != main_thread) return;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec == last.tv_sec && now.tv_nsec - last.tv_nsec < 50000000) return;
    last = now;
    install();
}

void restore_signals(void) {
    struct sigaction now;
    if (!installed) return;
    installed = false;
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == on_sigint) sigaction(SIGINT, &before, NULL);
}
