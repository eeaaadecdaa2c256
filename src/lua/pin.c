/* Memory that a Lua value keeps: pointers with an owner, the bytes of strings. The storage lives as long as any view or consumer
   of it does, and dies on any thread; then its pin goes on a list, which the Lua state empties when it next has the chance. */
#include "../core/memory.h"
#include "binding.h"

typedef struct pin pin;

/* one per Lua state; a reference for the state, and one for each pin */
typedef struct home {
    _Atomic(pin *) dropped;
    _Atomic int refs;
} home;

struct pin {
    moon_hook hook;
    home *home;
    int ref; /* the owner's slot in the registry */
    pin *next;
};

_Atomic int moonl_pins_waiting;

static const char home_key = 0; /* registry key by address: the userdata that owns the state's reference */

static void free_pin(pin *p) {
    atomic_fetch_sub_explicit(&moonl_pins_waiting, 1, memory_order_relaxed);
    moon_free(p, sizeof *p);
}

static void leave_home(home *h) {
    if (atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1) return;
    for (pin *p = atomic_load(&h->dropped); p != NULL;) { /* the Lua state is gone, and with it the owners */
        pin *next = p->next;
        free_pin(p);
        p = next;
    }
    moon_free(h, sizeof *h);
}

/* any thread */
static void drop(moon_hook *hook) {
    pin *p = (pin *)hook, *head = atomic_load_explicit(&p->home->dropped, memory_order_relaxed);
    home *h = p->home;
    atomic_fetch_add_explicit(&moonl_pins_waiting, 1, memory_order_relaxed);
    do {
        p->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&h->dropped, &head, p, memory_order_release, memory_order_relaxed));
    leave_home(h);
}

static void let_go(lua_State *L, home *h) {
    pin *p = atomic_exchange_explicit(&h->dropped, NULL, memory_order_acquire);
    while (p != NULL) {
        pin *next = p->next;
        luaL_unref(L, LUA_REGISTRYINDEX, p->ref);
        free_pin(p);
        p = next;
    }
}

static int home_gc(lua_State *L) {
    home **box = (home **)lua_touserdata(L, 1), *h = *box;
    *box = NULL;
    if (h == NULL) return 0;
    let_go(L, h);
    leave_home(h);
    return 0;
}

static home *find_home(lua_State *L) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &home_key) != LUA_TUSERDATA) {
        home **box = (home **)lua_newuserdatauv(L, sizeof *box, 0);
        *box = NULL;
        lua_createtable(L, 0, 1);
        lua_pushcfunction(L, home_gc);
        lua_setfield(L, -2, "__gc");
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &home_key);
        lua_remove(L, -2);
    }
    home **box = (home **)lua_touserdata(L, -1);
    if (*box == NULL) {
        *box = (home *)moon_alloc(sizeof **box);
        if (*box == NULL) luaL_error(L, "out of memory");
        atomic_init(&(*box)->dropped, NULL);
        atomic_init(&(*box)->refs, 1);
    }
    lua_pop(L, 1);
    return *box;
}

void moonl_drop_pins(lua_State *L) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &home_key) == LUA_TUSERDATA) {
        home *h = *(home **)lua_touserdata(L, -1);
        if (h != NULL) let_go(L, h);
    }
    lua_pop(L, 1);
}

/* one that no storage has */
typedef struct pin_box {
    pin *pin;
} pin_box;

static int pin_gc(lua_State *L) {
    pin_box *box = (pin_box *)lua_touserdata(L, 1);
    pin *p = box->pin;
    box->pin = NULL;
    if (p != NULL) drop(&p->hook);
    return 0;
}

int moonl_push_pinned(lua_State *L, const void *data, moon_dtype dtype, const moonl_sizes *sizes, bool readonly, int owner) {
    home *h = find_home(L);
    let_go(L, h);
    pin_box *box = (pin_box *)lua_newuserdatauv(L, sizeof *box, 0);
    box->pin = NULL;
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, pin_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    moon_tensor *t = moonl_new(L, sizes->ndim);
    lua_pushvalue(L, owner);
    int ref = luaL_ref(L, LUA_REGISTRYINDEX);
    pin *p = (pin *)moon_alloc(sizeof *p);
    if (p == NULL) {
        luaL_unref(L, LUA_REGISTRYINDEX, ref);
        return luaL_error(L, "out of memory");
    }
    *p = (pin){.hook = {.drop = drop}, .home = h, .ref = ref};
    atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
    box->pin = p;
    moon_dl_tensor dl = {.data = (void *)(uintptr_t)data,
                         .device = {MOON_DL_CPU, 0},
                         .ndim = sizes->ndim,
                         .dtype = moon_dtypes[dtype].dl,
                         .shape = (int64_t *)(uintptr_t)sizes->at};
    moon_status status = moon_dl_adopt(t, &dl, readonly, &p->hook);
    if (status != MOON_OK) return moonl_raise(L);
    box->pin = NULL;
    return 1;
}

/*** moon.from_pointer(pointer, dtype, sizes…, {owner=, readonly=}) -> tensor
A tensor over memory of another C library: a light userdata, what is there, and how much. Nothing is copied, and nothing can be
checked but the alignment. `owner` is any Lua value that keeps the memory, a full userdata with a finalizer perhaps: it is held
as long as a view or a consumer of the memory lives, and let go when the next tensor is collected or made so, or by `moon.gc()`. */
static int module_from_pointer(lua_State *L) {
    static const char *const names[] = {"owner", "readonly", NULL};
    if (lua_type(L, 1) != LUA_TLIGHTUSERDATA) return luaL_typeerror(L, 1, "light userdata");
    moon_dtype dtype = moonl_check_dtype(L, 2);
    moonl_sizes sizes;
    int next = moonl_check_sizes(L, 3, 0, &sizes);
    bool readonly = false;
    lua_settop(L, next);
    if (lua_isnil(L, next)) {
        lua_pushboolean(L, 1); /* nobody */
    } else {
        luaL_checktype(L, next, LUA_TTABLE);
        moonl_known_options(L, next, names);
        readonly = moonl_field_bool(L, next, "readonly", false);
        lua_getfield(L, next, "owner");
    }
    return moonl_push_pinned(L, lua_touserdata(L, 1), dtype, &sizes, readonly, lua_gettop(L));
}

static const moonl_entry functions[] = {{"from_pointer", module_from_pointer}, {NULL, NULL}};

void moonl_open_pin(lua_State *L, int module, int methods, int meta) {
    (void)methods, (void)meta;
    moonl_register(L, module, functions);
}
