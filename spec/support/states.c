/* A C host of several Lua states, for spec/python_states_spec.lua: states COMMAND, with LUA_PATH and LUA_CPATH set.
   It prints one line and exits with 0, or says what failed. crowd takes its seconds. */
#include <dlfcn.h>
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include <moontensor.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lua_State *open_state(void) {
    lua_State *L = luaL_newstate();
    if (L == NULL) exit(3);
    luaL_openlibs(L);
    return L;
}

static void run(lua_State *L, const char *code) {
    if (luaL_dostring(L, code) == LUA_OK) return;
    printf("error: %s\n", luaL_tolstring(L, -1, NULL));
    exit(2);
}

static const char *const work = "local moon, py = require 'moontensor', require 'moontensor.python'\n"
                                "local np = py.import 'numpy'\n"
                                "x = moon.arange(12, 'float64'):reshape(3, 4)\n"
                                "a = x:to_numpy()\n"
                                "f = py.topy(function(v) return v + 1 end)\n"
                                "py.builtins.setattr(py.import '__main__', 'kept', f)\n"
                                "assert(a:sum() == 66 and f(41) == 42)\n"
                                "assert(moon.from(a):data_ptr() == x:data_ptr())\n";

/* a state after a state, in one thread; what the first left in Python says that its state is closed */
static int one_after_another(void) {
    for (int i = 0; i < 3; i++) {
        lua_State *L = open_state();
        if (i > 0) {
            run(L, "local py = require 'moontensor.python'\n"
                   "local ok, e = pcall(py.eval, 'kept(1)')\n"
                   "assert(not ok and tostring(e):find('LuaError: state closed', 1, true), tostring(e))\n");
        }
        run(L, work);
        lua_close(L);
    }
    puts("three states");
    return 0;
}

static void *use_torch(void *unused) {
    (void)unused;
    lua_State *L = open_state();
    run(L, "local py = require 'moontensor.python'\n"
           "local torch = py.import 'torch'\n"
           "local w = torch.ones(3):requires_grad_()\n"
           "for i = 1, 2 do (w * w):sum():backward() end\n"
           "assert(w.grad:sum():item() == 12)\n"
           "local plot = py.import 'matplotlib'\n"
           "plot.use 'Agg'\n"
           "py.import 'matplotlib.pyplot'.figure():add_subplot():plot(py.list{1, 2})");
    lua_close(L);
    return NULL;
}

/* no Lua on the main thread at all: another hosts it, twice */
static int elsewhere(void) {
    for (int i = 0; i < 2; i++) {
        pthread_t t;
        pthread_create(&t, NULL, use_torch, NULL);
        pthread_join(t, NULL);
    }
    puts("twice");
    return 0;
}

static void *symbol(const char *name) {
    void *p = dlsym(RTLD_DEFAULT, name);
    if (p == NULL) exit(5);
    return p;
}

/* the host finalizes Python itself, with tensors shared both ways and callables alive */
static int finalize_first(void) {
    lua_State *L = open_state();
    run(L, work);
    run(L, "b = require 'moontensor'.from(a); py = require 'moontensor.python'; list = py.list{a}\n"
           "function again() return pcall(py.eval, '1') end\n"
           "late = setmetatable({}, {__gc = function() print('late', pcall(function() return #list end)) end})");
    int (*ensure)(void) = (int (*)(void))symbol("PyGILState_Ensure");
    int (*finalize)(void) = (int (*)(void))symbol("Py_FinalizeEx");
    ensure();
    int failed = finalize();
    run(L, "print(again())\n"
           "print(pcall(function() return #list end))\n"
           "print(pcall(function() return list[0] end), tostring(a))\n"
           "print(pcall(x.to_numpy, x))\n"
           "print(pcall(py.hold, print))\n"
           "do local closing <close> = list end\n"
           "print(b:sum():item(), x:sum():item())\n"
           "b:free() b = nil collectgarbage()");
    lua_close(L);
    L = open_state();
    run(L, "print(pcall(function() return require 'moontensor.python'.eval '1' end))\n"
           "print(require 'moontensor'.ones(2):sum():item())");
    lua_close(L);
    printf("finalized %d\n", failed);
    return 0;
}

/* a consumer that outlives the state: the deleter runs after lua_close, on another thread */
static void *delete_it(void *p) {
    moon_dl_versioned *m = (moon_dl_versioned *)p;
    m->deleter(m);
    return NULL;
}

static int late_deleter(void) {
    lua_State *L = open_state();
    run(L, "x = require 'moontensor'.arange(5, 'float64')");
    const moon_api *moon = moon_get_api(L);
    lua_getglobal(L, "x");
    moon_dl_versioned *a, *b;
    if (moon->dl_export(moon->check(L, -1), MOON_DL_FOR_US, &a) != MOON_OK) return 4;
    if (moon->dl_export(moon->check(L, -1), MOON_DL_FOR_US, &b) != MOON_OK) return 4;
    lua_close(L);
    double sum = 0;
    for (int i = 0; i < 5; i++) sum += ((double *)a->dl_tensor.data)[i];
    a->deleter(a);
    pthread_t t;
    pthread_create(&t, NULL, delete_it, b);
    pthread_join(t, NULL);
    printf("sum %g\n", sum);
    return 0;
}

static const char *const churn = "local moon, py = require 'moontensor', require 'moontensor.python'\n"
                                 "local np = py.import 'numpy'\n"
                                 "for i = 1, 200 do\n"
                                 "  local x = moon.arange(16, 'float64') + id\n"
                                 "  local a = x:to_numpy()\n"
                                 "  local view, copy = moon.from(a), moon.from(a, {copy = true})\n"
                                 "  assert(view(6) == 5 + id and copy(16) == 15 + id)\n"
                                 "  assert(py.eval('lambda f, v: f(v)')(function(v) return v * 2 end, i) == 2 * i)\n"
                                 "  if i % 20 == 0 then collectgarbage() end\n"
                                 "end\n";

static void *churner(void *id) {
    lua_State *L = open_state();
    lua_pushinteger(L, (lua_Integer)(intptr_t)id);
    lua_setglobal(L, "id");
    run(L, churn);
    lua_close(L);
    return NULL;
}

static int threads(void) {
    lua_State *L = open_state(); /* keeps the bridge open until the others are done */
    run(L, "require 'moontensor.python'.import 'numpy'");
    pthread_t t[4];
    for (intptr_t i = 0; i < 4; i++) pthread_create(&t[i], NULL, churner, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    run(L, "for _ = 1, 2 do collectgarbage() require 'moontensor.python'.bool(false) end\n"
           "local s = require 'moontensor'.stats()\n"
           "counts = ('exports %d imports %d storages %d'):format(s.exports, s.imports, s.storages)");
    lua_getglobal(L, "counts");
    puts(lua_tostring(L, -1));
    lua_close(L);
    return 0;
}

/* one thread sleeps in Lua code, the other collects proxies: nobody waits for the sleeper */
static const char *const sleeper = "local py = require 'moontensor.python'\n"
                                   "py.import 'sys'\n"
                                   "local stop = os.time() + 2 while os.time() < stop do end\n";
static const char *const collector = "local py = require 'moontensor.python'\n"
                                     "for i = 1, 2000 do local x = py.eval '[object()]' end\n"
                                     "collectgarbage() py.bool(false)\n";

static void *run_code(void *code) {
    lua_State *L = open_state();
    run(L, (const char *)code);
    lua_close(L);
    return NULL;
}

static int finalizers(void) {
    lua_State *L = open_state();
    run(L, "require 'moontensor.python'.import 'sys'");
    pthread_t a, b;
    pthread_create(&a, NULL, run_code, (void *)(uintptr_t)sleeper);
    pthread_create(&b, NULL, run_code, (void *)(uintptr_t)collector);
    pthread_join(b, NULL);
    pthread_join(a, NULL);
    lua_close(L);
    puts("both done");
    return 0;
}

/* a host that asks for Python's exit work before it closes the state, with everything alive */
static int shut_down_first(void) {
    lua_State *L = open_state();
    run(L, work);
    run(L, "local py = require 'moontensor.python' py.init {exit = 'host'} py.shutdown()");
    lua_close(L);
    puts("closed");
    return 0;
}

/* Four states on four threads cross all the time, in every way, and two Python threads call functions of two of them back. */
static int crowd_seconds;
static const char *const crowd_code =
    "local moon, py = require 'moontensor', require 'moontensor.python'\n"
    "py.init {callback_timeout = 300}\n"
    "local np, main = py.import 'numpy', py.import '__main__'\n"
    "local apply = py.eval 'lambda f, v: f(v)'\n"
    "local function fail(v) error(v) end\n"
    "py.setitem(main.functions, id, function(v, a) return v + id + a[0] end)\n"
    "local n, stop = 0, os.time() + seconds\n"
    "repeat\n"
    "  n = n + 1\n"
    "  local x = moon.full({16}, n, 'float64')\n"
    "  local a = x:to_numpy()\n"
    "  local view, copy = moon.from(a), moon.from(a, {copy = true})\n"
    "  x:add_(id)\n"
    "  assert(view(6) == n + id and copy(16) == n and a:sum() == 16 * (n + id))\n"
    "  assert(apply(function(v) return v * 2 end, n) == 2 * n)\n"
    "  local ok, e = pcall(apply, fail, n)\n"
    "  assert(not ok and e == n)\n"
    "  ok, e = pcall(np.zeros, 'x')\n"
    "  assert(not ok and tostring(e):find 'TypeError')\n"
    "  if n % 100 == 0 then py.hold(function() for i = 1, 100 do assert((a + i)[3] == n + id + i) end end) end\n"
    "  if n % 500 == 0 then collectgarbage() end\n"
    "until os.time() >= stop and n >= 1000\n" /* ten crossings or more each time */
    "crossings = 10 * n\n";
static const char *const crowd_callers = "local moon, py = require 'moontensor', require 'moontensor.python'\n"
                                         "py.exec [[if True:\n"
                                         "  import threading, moontensor, numpy, time\n"
                                         "  functions, calls, faults = {}, [0, 0], []\n"
                                         "  def call(i):\n"
                                         "      while i + 1 not in functions: time.sleep(0.001)\n"
                                         "      f, one = functions[i + 1], numpy.ones(1)\n"
                                         "      try:\n"
                                         "          while True:\n"
                                         "              if f(calls[i], one) != calls[i] + i + 2: raise ValueError(calls[i])\n"
                                         "              calls[i] += 1\n"
                                         "      except moontensor.LuaError as e:\n"
                                         "          if 'closed' not in str(e): faults.append(str(e))\n"
                                         "      except BaseException as e:\n"
                                         "          faults.append(repr(e))\n"
                                         "  threads = [threading.Thread(target=call, args=(i,)) for i in range(2)]\n"
                                         "  for t in threads: t.start()]]\n";

static void *crowd_member(void *id) {
    lua_State *L = open_state();
    lua_pushinteger(L, (lua_Integer)(intptr_t)id);
    lua_setglobal(L, "id");
    lua_pushinteger(L, crowd_seconds);
    lua_setglobal(L, "seconds");
    run(L, crowd_code);
    lua_getglobal(L, "crossings");
    lua_Integer n = lua_tointeger(L, -1);
    lua_close(L);
    return (void *)(intptr_t)n;
}

static int crowd(int seconds) {
    crowd_seconds = seconds;
    lua_State *L = open_state();
    run(L, crowd_callers);
    pthread_t t[4];
    lua_Integer least = 0;
    for (intptr_t i = 0; i < 4; i++) pthread_create(&t[i], NULL, crowd_member, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *n;
        pthread_join(t[i], &n);
        if (i == 0 || (intptr_t)n < least) least = (intptr_t)n;
    }
    lua_pushinteger(L, least);
    lua_setglobal(L, "crossings");
    run(L,
        "local moon, py = require 'moontensor', require 'moontensor.python'\n"
        "py.exec 'for t in threads: t.join()'\n"
        "local main = py.import '__main__'\n"
        "assert(#main.faults == 0, tostring(main.faults))\n"
        "main.functions:clear()\n"
        "for _ = 1, 2 do collectgarbage() py.bool(false) end\n"
        "local s = moon.stats()\n"
        "print(('crossings %s calls %s %s exports %d imports %d storages %d callables %d queued %d'):format(crossings >= 10000,\n"
        "  main.calls[0] > 0, main.calls[1] > 0, s.exports, s.imports, s.storages, s.callables, s.queued))\n"
        "io.stderr:write(('%d crossings or more by each thread, %d and %d calls back\\n'):format(crossings, main.calls[0],\n"
        "  main.calls[1]))");
    lua_close(L);
    return 0;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "crowd") == 0) return crowd(argc > 2 ? atoi(argv[2]) : 5);
    if (strcmp(command, "one_after_another") == 0) return one_after_another();
    if (strcmp(command, "late_deleter") == 0) return late_deleter();
    if (strcmp(command, "threads") == 0) return threads();
    if (strcmp(command, "finalizers") == 0) return finalizers();
    if (strcmp(command, "elsewhere") == 0) return elsewhere();
    if (strcmp(command, "finalize_first") == 0) return finalize_first();
    if (strcmp(command, "shut_down_first") == 0) return shut_down_first();
    fprintf(stderr, "states: unknown command '%s'\n", command);
    return 64;
}
