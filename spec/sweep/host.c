/* Runs each script of a list (spec/support/scripts.lua, scripts_python.lua) in a child of its own, in three modes:
     lua      from the n-th allocation on Lua's allocator fails until the script is left, for every n
     malloc   so does malloc, for core.so and bridge.so
     collect  a full collection at every instruction
   host LIST [script ...]. See README.md. */
#include <inttypes.h>
#include <lauxlib.h>
#include <link.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POINTS = 400, JOBS = 2, SECONDS = 120 };

typedef enum { LUA, MALLOC, COLLECT, MODES } mode;
static const char *const mode_names[] = {"lua", "malloc", "collect"};

/* ---- allocators that fail ---- */

typedef struct failing {
    long count, from; /* allocations seen, and the first to fail: 0 for none */
    bool on;
} failing;

static failing lua_failing;
static _Thread_local failing malloc_failing;

static bool fails(failing *f) { return f->on && ++f->count >= f->from && f->from > 0; }

/* what frees or shrinks never fails: Lua relies on it */
static void *allocate(void *context, void *block, size_t old, size_t size) {
    (void)context;
    if (size == 0) {
        free(block);
        return NULL;
    }
    if ((block == NULL || size > old) && fails(&lua_failing)) return NULL;
    return realloc(block, size);
}

/* The executable's malloc is everybody's: who calls tells whether it may fail. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *block, size_t size);

static struct range {
    uintptr_t first, past;
} ours[8];
static int ours_count;

static bool refused(const void *caller) {
    if (!malloc_failing.on) return false;
    for (int i = 0; i < ours_count; i++) {
        if ((uintptr_t)caller - ours[i].first < ours[i].past - ours[i].first) return fails(&malloc_failing);
    }
    return false;
}

void *malloc(size_t size) { return refused(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return refused(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size); }
void *realloc(void *block, size_t size) { return refused(__builtin_return_address(0)) ? NULL : __libc_realloc(block, size); }

static int note_ours(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    if (strstr(info->dlpi_name, "moontensor/core.so") == NULL && strstr(info->dlpi_name, "moontensor/bridge.so") == NULL) return 0;
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

static void run_right(lua_State *L, const char *when) {
    lua_pushvalue(L, 2);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) fault(L, when);
}

static bool is_out_of_memory(lua_State *L, int status) {
    const char *text = luaL_tolstring(L, -1, NULL);
    bool is = status == LUA_ERRMEM || strstr(text, "not enough memory") != NULL || strstr(text, "out of memory") != NULL ||
              strstr(text, "MemoryError") != NULL;
    lua_pop(L, 1);
    return is;
}

static void sweep(lua_State *L, failing *f) {
    mode m = mine->at;
    *f = (failing){.on = true};
    run_right(L, "unfailing:");
    f->on = false;
    mine->points[m] = f->count;
    settle(L);
    long step = mine->steps[m] = (f->count + POINTS - 1) / POINTS;
    for (long n = 1; n <= mine->points[m]; n += step) {
        mine->n = n;
        lua_pushvalue(L, 2);
        *f = (failing){.on = true, .from = n};
        int status = lua_pcall(L, 0, 0, 0);
        f->on = false;
        if (status != LUA_OK && !is_out_of_memory(L, status)) fault(L, "raised:");
        if (lua_gettop(L) != (status == LUA_OK ? 3 : 4)) fault(L, "unbalanced");
        lua_settop(L, 3);
        settle(L);
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
            sweep(L, mine->at == LUA ? &lua_failing : &malloc_failing);
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
