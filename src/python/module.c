/* luaopen_moontensor_bridge: starts Python, or joins one that runs, and opens the bridge in a Lua state. */
#include "bridge.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

bool we_initialized;
thread *main_thread;
pid_t main_pid;
_Atomic int64_t live_proxies, live_callables, live_queued;

static const char state_key = 0; /* registry key by address: the sentinel */

/* ---- once a process ---- */

/* Lua's loader will close libpython when the Lua state that loaded it closes. It has to stay. */
static void pin_libpython(void) {
    Dl_info info;
    if (dladdr((void *)(uintptr_t)Py_IsInitialized, &info) && info.dli_fname != NULL) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

static void set_program_name(const char *executable) {
    wchar_t *name = Py_DecodeLocale(executable, NULL); /* Python keeps it */
    void (*set)(const wchar_t *) = (void (*)(const wchar_t *))(uintptr_t)dlsym(RTLD_DEFAULT, "Py_SetProgramName");
    if (name != NULL && set != NULL) set(name);
}

static int init_types(const char *prelude) {
    PyObject *module = PyImport_AddModule("moontensor");
    if (module == NULL) return -1;
    if (init_errors(module) < 0 || init_callables(module) < 0 || init_methods() < 0 || init_exchange() < 0) return -1;
    PyObject *names = PyModule_GetDict(module);
    PyObject *code = Py_CompileString(prelude, "<moontensor>", Py_file_input);
    PyObject *done = code ? PyEval_EvalCode(code, names, names) : NULL;
    Py_XDECREF(code);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

static bool started;
static char failure[512];

static void describe_failure(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    PyOS_snprintf(failure, sizeof failure, "%s", s ? s : "unknown error");
    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    Py_XDECREF(text);
}

static void start(const char *executable, const char *prelude) {
    pin_libpython();
    thread *t = this_thread();
    main_pid = getpid();
    PyGILState_STATE gs = PyGILState_UNLOCKED;
    if (Py_IsInitialized()) {
        gs = PyGILState_Ensure();
    } else {
        if (executable != NULL) set_program_name(executable);
        Py_InitializeEx(0); /* no signal handlers: SIGINT belongs to the Lua host */
        we_initialized = true;
        main_thread = t;
        t->ts = PyThreadState_Get();
    }
    init_threads();
    started = init_types(prelude) == 0 && init_signals() == 0 && init_exit() == 0;
    if (!started) describe_failure();
    if (we_initialized) PyEval_SaveThread();
    else PyGILState_Release(gs);
}

/* ---- once a Lua state ---- */

static int64_t read_proxies(void) { return atomic_load(&live_proxies); }
static int64_t read_callables(void) { return atomic_load(&live_callables); }
static int64_t read_queued(void) { return atomic_load(&live_queued); }

static int push_sentinel(lua_State *L) { /* a closed one: nothing owned yet */
    state **box = (state **)lua_newuserdatauv(L, sizeof *box, 0);
    *box = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, close_state);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return 1;
}

static void add_state(state *S) {
    PyGILState_STATE gs = PyGILState_Ensure();
    is_shut = false;
    S->next = states;
    states = S;
    PyGILState_Release(gs);
}

static void open_state(lua_State *L) {
    push_sentinel(L);
    state **box = (state **)lua_touserdata(L, -1);
    state *S = (state *)calloc(1, sizeof *S);
    if (S == NULL) luaL_error(L, "not enough memory");
    S->refs = 1;
    S->callback_timeout = 10;
    S->scope = &S->root;
    S->gc_threshold = 64 << 20;
    S->gc_step = 0.2;
    S->holder = this_thread();
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    S->main = lua_tothread(L, -1);
    lua_pop(L, 1);
    *box = S;
    add_state(S);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
    open_proxies(L, S);
    open_methods(L, S);
    lua_pushcfunction(L, fill_spares);
    lua_pushlightuserdata(L, S);
    lua_call(L, 1, 0);
    moon->add_counter(L, "proxies", read_proxies);
    moon->add_counter(L, "callables", read_callables);
    moon->add_counter(L, "queued", read_queued);
    lua_newtable(L);
    open_functions(L, S);
    open_exchange(L, S);
    lua_createtable(L, 0, 0);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kw_metatable);
    lua_setfield(L, -2, "_kw");
}

/* open(executable or nil, prelude): the table of functions; once a Lua state */
static int bridge_open(lua_State *L) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    const char *executable = luaL_optstring(L, 1, NULL), *prelude = luaL_checkstring(L, 2);
    const moon_api *api = moon_get_api(L);
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key) != LUA_TNIL) return luaL_error(L, "the bridge is open in this Lua state");
    lua_pop(L, 1);
    if (is_gone) return raise_text(L, "Python was finalized by this process's host, and does not start again");
    pthread_mutex_lock(&mutex);
    if (moon == NULL) moon = api;
    if (!started && failure[0] == '\0') start(executable, prelude);
    bool ok = started;
    pthread_mutex_unlock(&mutex);
    if (!ok) return luaL_error(L, "Python started, but the bridge could not be set up in it: %s", failure);
    open_state(L);
    return 1;
}

static int bridge_initialized(lua_State *L) {
    lua_pushboolean(L, Py_IsInitialized());
    return 1;
}

__attribute__((visibility("default"))) int luaopen_moontensor_bridge(lua_State *L);

int luaopen_moontensor_bridge(lua_State *L) {
    static const luaL_Reg functions[] = {{"open", bridge_open}, {"initialized", bridge_initialized}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
