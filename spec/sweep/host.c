/* Runs each script of a list (spec/support/scripts.lua, scripts_python.lua) in a child of its own, in these modes:
     lua      from the n-th allocation on Lua's allocator fails until the script is left, for every n; or it fails just there
     malloc   so does malloc, for core.so and bridge.so
     collect  a full collection at every instruction
   host LIST [script ...]. See README.md. */
#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <link.h>
#include <lua.h>
#include <lualib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POINTS = 2000, JOBS = 2, SECONDS = 600 };
#define OPENING "open another state" /* in place of a script */

typedef enum { LUA, LUA_ONCE, MALLOC, MALLOC_ONCE, COLLECT, MODES } mode;
static const char *const mode_names[] = {"lua", "lua once", "malloc", "malloc once", "collect"};

/* ---- allocators that fail ---- */

typedef struct failing {
    long count, from, past; /* allocations seen; the first that fails, 0 for none, and the first that does not again */
    bool on;
} failing;

static failing lua_failing;
static size_t lua_bytes;
static _Thread_local failing malloc_failing;

static bool fails(failing *f) { return f->on && ++f->count >= f->from && f->count < f->past; }

/* what frees or shrinks never fails: Lua relies on it */
static void *allocate(void *context, void *block, size_t old, size_t size) {
    (void)context;
    if (block == NULL) old = 0;
    if (size > old && fails(&lua_failing)) return NULL;
    lua_bytes += size - old;
    if (size > 0) return realloc(block, size);
    free(block);
    return NULL;
}

/* The executable's malloc is everybody's: who calls tells whether it may fail, and whose the block is. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

static struct range { uintptr_t first, past; } ours[8];
static int ours_count;

/* the blocks that core.so and bridge.so hold: a hash set, since others free them too */
enum { SLOTS = 1 << 16 };
static void *slots[SLOTS];
static atomic_flag slots_lock = ATOMIC_FLAG_INIT;
static long blocks;

static size_t home(const void *block) { return ((uintptr_t)block >> 4) * 0x9e3779b97f4a7c15u >> 48; }

static void note(void *block) {
    if (block == NULL) return;
    while (atomic_flag_test_and_set(&slots_lock)) {}
    size_t i = home(block);
    while (slots[i] != NULL) i = (i + 1) % SLOTS;
    slots[i] = block;
    blocks++;
    atomic_flag_clear(&slots_lock);
}

static void forget(const void *block) {
    while (atomic_flag_test_and_set(&slots_lock)) {}
    size_t i = home(block);
    while (slots[i] != NULL && slots[i] != block) i = (i + 1) % SLOTS;
    if (slots[i] != NULL) {
        blocks--;
        slots[i] = NULL;
        for (size_t j = (i + 1) % SLOTS; slots[j] != NULL; j = (j + 1) % SLOTS) { /* what lies behind moves up */
            if ((j - home(slots[j])) % SLOTS < (j - i) % SLOTS) continue;
            slots[i] = slots[j];
            slots[j] = NULL;
            i = j;
        }
    }
    atomic_flag_clear(&slots_lock);
}

static bool is_ours(const void *caller) {
    for (int i = 0; i < ours_count; i++) {
        if ((uintptr_t)caller - ours[i].first < ours[i].past - ours[i].first) return true;
    }
    return false;
}

static bool refused(bool by_us) { return by_us && fails(&malloc_failing); }

static void *noted(bool by_us, void *block) {
    if (by_us) note(block);
    return block;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size) {
    bool us = is_ours(CALLER);
    return refused(us) ? NULL : noted(us, __libc_malloc(size));
}

void *calloc(size_t n, size_t size) {
    bool us = is_ours(CALLER);
    return refused(us) ? NULL : noted(us, __libc_calloc(n, size));
}

void *realloc(void *block, size_t size) {
    bool us = is_ours(CALLER);
    if (refused(us)) return NULL;
    if (us) forget(block);
    return noted(us, __libc_realloc(block, size));
}

void free(void *block) {
    if (ours_count > 0 && block != NULL) forget(block);
    __libc_free(block);
}

/* large tensors are mapped */
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (!refused(is_ours(CALLER))) return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

static int note_ours(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    if (strstr(info->dlpi_name, "moontensor/core.so") == NULL && strstr(info->dlpi_name, "moontensor/bridge.so") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0) continue;
        ours[ours_count++] = (struct range){info->dlpi_addr + p->p_vaddr, info->dlpi_addr + p->p_vaddr + p->p_memsz};
    }
    return 0;
}

/* ---- a child: one script ---- */

/* shared with the parent, which names what a crash was in the middle of */
typedef struct report {
    pid_t pid;
    const char *name;
    mode at;
    long n, points[MODES], steps[MODES];
    bool passed[MODES];
    char fault[600];
} report;

static report *mine;

static void fault(lua_State *L, const char *what) {
    const char *text = lua_gettop(L) > 0 ? luaL_tolstring(L, -1, NULL) : "";
    snprintf(mine->fault, sizeof mine->fault, "%s %s", what, text);
    _exit(1);
}

static void warn(void *context, const char *text, int more) {
    (void)more;
    if (text[0] == '@') return;
    snprintf(mine->fault, sizeof mine->fault, "warning: %s", text);
    *(bool *)context = true;
}

static bool warned;

/* a table of functions at index 1: scripts, settle */
static void open_list(lua_State *L, const char *list) {
    luaL_openlibs(L);
    lua_setwarnf(L, warn, &warned);
    lua_getglobal(L, "require");
    lua_pushstring(L, list);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
        _exit(1);
    }
}

/* what is alive after collections, as text at index 3: the first time it is put there, and must never change */
static void settle(lua_State *L) {
    bool first = lua_gettop(L) < 3;
    lua_getfield(L, 1, "settle");
    if (first) lua_pushnil(L);
    else lua_pushvalue(L, 3);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) fault(L, "settling failed:");
    if (!lua_rawequal(L, -1, 3)) {
        lua_pushfstring(L, "%s, not %s", lua_tostring(L, -1), lua_tostring(L, 3));
        fault(L, "left alive:");
    }
    if (warned) _exit(1);
    lua_settop(L, 3);
}

static void collect(lua_State *L, lua_Debug *ar) {
    (void)ar;
    lua_gc(L, LUA_GCCOLLECT);
}

static bool is_out_of_memory(const char *text) {
    /* the last is what luaL_checkstack says when the stack cannot grow */
    static const char *const texts[] = {"not enough memory", "out of memory",          "MemoryError",
                                        "no address space",  "Cannot allocate memory", "stack overflow"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strstr(text, texts[i]) != NULL) return true;
    }
    return false;
}

/* ---- what is run: the function at index 2, or the opening of another Lua state ---- */

static int open_it(lua_State *L) {
    luaL_openlibs(L);
    const char *code = (const char *)lua_touserdata(L, 1);
    if (luaL_dostring(L, code) != LUA_OK) return lua_error(L);
    return 0;
}

/* a Lua status, with the error on top */
static int open_another(lua_State *L, failing *f) {
    lua_getfield(L, 1, "opening");
    lua_State *other = lua_newstate(allocate, NULL);
    lua_pushcfunction(other, open_it);
    const char *code = lua_tostring(L, -1);
    lua_pop(L, 1);
    lua_pushlightuserdata(other, (void *)code);
    f->on = true;
    int status = lua_pcall(other, 1, 0, 0);
    f->on = false;
    if (status != LUA_OK) lua_pushstring(L, luaL_tolstring(other, -1, NULL));
    lua_settop(other, 0);
    lua_pushcfunction(other, open_it);
    lua_pushlightuserdata(other, (void *)code);
    if (status != LUA_OK && lua_pcall(other, 1, 0, 0) != LUA_OK) {
        lua_pushstring(L, lua_tostring(other, -1));
        fault(L, "the next time:");
    }
    lua_close(other);
    return status;
}

static int attempt(lua_State *L, failing *f) {
    if (lua_isnil(L, 2)) return open_another(L, f);
    lua_pushvalue(L, 2);
    f->on = true;
    int status = lua_pcall(L, 0, 0, 0);
    f->on = false;
    return status;
}

static void run_right(lua_State *L, const char *when) {
    failing never = {0};
    if (attempt(L, &never) != LUA_OK) fault(L, when);
}

/* ---- leaks ---- */

enum { LUA_BYTES, BLOCKS, PYTHON_BLOCKS, KINDS, TIMES = 5, MOST_TIMES = 625 };
static const long units[] = {16, 1, 1}; /* the least that a leak takes */
static const char *const kind_names[] = {"bytes of Lua", "blocks", "blocks of Python"};

typedef struct held {
    long of[KINDS];
} held;

static held measure(lua_State *L, bool exactly) {
    held h = {.of = {(long)lua_bytes, blocks}};
    if (lua_getfield(L, 1, "python_blocks") != LUA_TNIL) {
        lua_pushboolean(L, exactly);
        if (lua_pcall(L, 1, 1, 0) != LUA_OK) fault(L, "measuring:");
        h.of[PYTHON_BLOCKS] = (long)lua_tointeger(L, -1);
    }
    lua_settop(L, 3);
    return h;
}

static void try_point(lua_State *L, failing *f, long n) {
    *f = (failing){.from = n, .past = LONG_MAX};
    if (mine->at == LUA_ONCE) f->past = n + 2; /* Lua collects and tries again */
    if (mine->at == MALLOC_ONCE) f->past = n + 1;
    int status = attempt(L, f);
    if (status != LUA_OK) {
        if (!is_out_of_memory(luaL_tolstring(L, -1, NULL))) fault(L, "raised:");
        lua_pop(L, 1);
    }
    if (lua_gettop(L) != (status == LUA_OK ? 3 : 4)) fault(L, "unbalanced");
    lua_settop(L, 3);
    settle(L);
}

static void try_often(lua_State *L, failing *f, long n, int times) {
    for (int i = 0; i < times; i++) try_point(L, f, n);
}

/* What is there for the first time may stay: caches, free lists. A leak grows each time. */
static void check_leaks(lua_State *L, failing *f, long n, held *most) {
    held now = measure(L, false);
    long left = lua_isnil(L, 2); /* a closed state leaves its record, for finalizers that come late */
    for (int kind = 0; kind < KINDS; kind++) {
        if (now.of[kind] <= most->of[kind]) continue;
        for (int times = 1;; times *= TIMES) {
            long before = measure(L, true).of[kind];
            try_often(L, f, n, times);
            now = measure(L, true);
            if (now.of[kind] - before < times * (units[kind] + (kind == BLOCKS) * left)) break;
            if (times == MOST_TIMES) {
                lua_pushfstring(L, "%d %s", (int)(now.of[kind] - before) / times, kind_names[kind]);
                fault(L, "leaks");
            }
        }
        if (now.of[kind] > most->of[kind]) most->of[kind] = now.of[kind];
    }
}

static void sweep(lua_State *L, failing *f) {
    mode m = mine->at;
    *f = (failing){0};
    if (attempt(L, f) != LUA_OK) fault(L, "unfailing:");
    mine->points[m] = f->count;
    settle(L);
    held most = measure(L, true);
    long step = mine->steps[m] = (f->count + POINTS - 1) / POINTS;
    for (long n = 1; n <= mine->points[m]; n += step) {
        mine->n = n;
        try_point(L, f, n);
        check_leaks(L, f, n, &most);
    }
    mine->n = 0;
    run_right(L, "afterwards:");
    settle(L);
}

static void run_child(const char *list) {
    alarm(SECONDS);
    lua_State *L = lua_newstate(allocate, NULL);
    open_list(L, list);
    lua_getfield(L, 1, "scripts");
    lua_getfield(L, 2, mine->name);
    lua_remove(L, 2);
    dl_iterate_phdr(note_ours, NULL);
    run_right(L, "first:");
    run_right(L, "second:");
    settle(L);
    for (mine->at = LUA; mine->at < MODES; mine->at++) {
        if (mine->at != COLLECT) {
            sweep(L, mine->at <= LUA_ONCE ? &lua_failing : &malloc_failing);
        } else {
            lua_sethook(L, collect, LUA_MASKCOUNT, 1);
            run_right(L, "collecting:");
            lua_sethook(L, NULL, 0, 0);
            settle(L);
        }
        mine->passed[mine->at] = true;
    }
    lua_close(L);
    _exit(warned);
}

/* ---- the parent ---- */

/* names of scripts, one a line; the list's check is that none is missing */
static char *names(const char *list) {
    int p[2];
    if (pipe(p) != 0) exit(3);
    pid_t pid = fork();
    if (pid == 0) {
        lua_State *L = luaL_newstate();
        open_list(L, list);
        lua_getfield(L, 1, "names");
        if (lua_pcall(L, 0, 1, 0) != LUA_OK) {
            fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
            _exit(1);
        }
        FILE *out = fdopen(p[1], "w");
        fprintf(out, "%s\n", OPENING);
        for (lua_Integer i = 1; lua_geti(L, 2, i) == LUA_TSTRING; i++) fprintf(out, "%s\n", lua_tostring(L, -1)), lua_pop(L, 1);
        fclose(out);
        lua_close(L);
        _exit(0);
    }
    close(p[1]);
    static char text[1 << 16];
    FILE *in = fdopen(p[0], "r");
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    fclose(in);
    int status;
    if (waitpid(pid, &status, 0) != pid || status != 0) exit(1);
    return text;
}

static int passed, failed;
static long points, tried;

static void judge(report *r, int status) {
    for (mode m = LUA; m < MODES; m++) {
        passed += r->passed[m];
        points += r->points[m];
        if (r->steps[m] > 0) tried += (r->points[m] + r->steps[m] - 1) / r->steps[m];
        if (r->steps[m] > 1) printf("%s, %s: %ld points, each %ld-th\n", r->name, mode_names[m], r->points[m], r->steps[m]);
    }
    if (status == 0) return;
    failed++;
    printf("FAIL %s, %s", r->name, r->at < MODES ? mode_names[r->at] : "closing");
    if (r->n > 0) printf(" %ld of %ld", r->n, r->points[r->at]);
    if (WIFSIGNALED(status)) printf(": signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    printf(": %s\n", r->fault);
}

int main(int argc, char **argv) {
    if (argc < 2) return 64;
    const char *list = argv[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    char *name = names(list), *saved;
    report *reports = mmap(NULL, JOBS * sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int scripts = 0, running = 0;
    for (name = strtok_r(name, "\n", &saved); name != NULL || running > 0;) {
        bool wanted = name != NULL && argc == 2;
        for (int i = 2; name != NULL && i < argc; i++) wanted = wanted || strcmp(argv[i], name) == 0;
        if (running == JOBS || name == NULL) {
            int status;
            pid_t pid = wait(&status);
            running--;
            for (int i = 0; i < JOBS; i++) {
                if (reports[i].pid == pid) judge(&reports[i], status), reports[i].pid = 0;
            }
            continue;
        }
        if (wanted) {
            mine = reports[0].pid == 0 ? &reports[0] : &reports[1];
            *mine = (report){.name = name};
            pid_t pid = fork();
            if (pid == 0) run_child(list);
            mine->pid = pid;
            running++;
            scripts++;
        }
        name = strtok_r(NULL, "\n", &saved);
    }
    printf("%s: %d scripts, %ld allocation points, %ld of them failed\n", list, scripts, points, tried);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed > 0;
}
