/* Files: mapped, loaded, saved. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "../core/mapping.h"
#include "../core/npz.h"
#include "../core/safetensors.h"
#include "binding.h"

/*** # Files
`moon.load` and `moon.save` know a format by its ending: `.npy` and `.npz` are NumPy's, `.safetensors` holds the tensors of a
model. A file that is not there, or may not be opened, is `nil`, a message and the system's error number, as with `io.open`; what
is malformed raises, and the error names the file, the field and the value. A mapped file must not be shortened while tensors
lie in it: the system ends a program that touches what is gone. */

typedef enum format { NPY, NPZ, SAFETENSORS } format;

static const char *check_path(lua_State *L, int arg) {
    size_t n;
    const char *path = luaL_checklstring(L, arg, &n);
    luaL_argcheck(L, n > 0 && strlen(path) == n, arg, "a path is neither empty nor does it contain a NUL");
    return path;
}

static format check_format(lua_State *L, int arg) {
    static const char *const endings[] = {".npy", ".npz", ".safetensors"};
    const char *path = check_path(L, arg);
    size_t n = strlen(path);
    for (int i = 0; i < 3; i++) {
        size_t k = strlen(endings[i]);
        if (n > k && strcasecmp(path + n - k, endings[i]) == 0) return (format)i;
    }
    luaL_argerror(L, arg, lua_pushfstring(L, "no format for '%s'; the endings are .npy, .npz and .safetensors", path));
    return NPY;
}

/* raise the error record, for the file at the path */
static int file_error(lua_State *L, const char *path) { return luaL_error(L, "%s: %s", path, moon_error_message()); }

/* open(2) failed with `error`: nil, message, error; anything else raises */
static int cannot_open(lua_State *L, const char *path, int error) {
    if (error == 0) return file_error(L, path);
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", path, moon_error_message());
    lua_pushinteger(L, error);
    return 3;
}

/* ---- mapping ---- */

typedef struct map_options {
    moon_map_mode mode;
    int64_t offset;
} map_options;

static void check_map_options(lua_State *L, int arg, map_options *out) {
    static const char *const names[] = {"offset", "mode", NULL}, *const modes[] = {"r", "r+", "c", "w+"};
    *out = (map_options){MOON_MAP_READ, 0};
    if (lua_isnoneornil(L, arg)) return;
    luaL_checktype(L, arg, LUA_TTABLE);
    moonl_known_options(L, arg, names);
    if (lua_getfield(L, arg, "offset") != LUA_TNIL) {
        int isint;
        out->offset = lua_tointegerx(L, -1, &isint);
        if (!isint || out->offset < 0) {
            luaL_argerror(L, arg, lua_pushfstring(L, "offset= is a number of bytes, got %s", luaL_tolstring(L, -1, NULL)));
        }
    }
    if (lua_getfield(L, arg, "mode") != LUA_TNIL) {
        const char *mode = lua_tostring(L, -1);
        int i = 0;
        while (i < 4 && (mode == NULL || strcmp(mode, modes[i]) != 0)) i++;
        if (i == 4) {
            luaL_argerror(
                L, arg,
                lua_pushfstring(L,
                                "mode= is \"r\" (read-only), \"r+\" (writes to the file), \"c\" (writes stay in memory) or "
                                "\"w+\" (a new file), got %s",
                                luaL_tolstring(L, -1, NULL)));
        }
        out->mode = (moon_map_mode)i;
    }
    lua_pop(L, 2);
}

/* without sizes: 1-d, the rest of the file; false where it cannot be opened */
static bool rest_of_file(lua_State *L, const char *path, moon_dtype dtype, const map_options *options, moonl_sizes *sizes,
                         int *error) {
    int64_t size, width = moon_dtypes[dtype].size;
    if (options->mode == MOON_MAP_CREATE) luaL_argerror(L, 3, "a new file needs sizes");
    if (moon_file_size(path, &size, error)) return false;
    int64_t rest = size - options->offset;
    if (rest < 0 || rest % width) {
        luaL_error(
            L, "%s: the file has %I bytes; those from offset %I on are no whole number of %s elements of %I bytes; give sizes",
            path, (LUAI_UACINT)size, (LUAI_UACINT)options->offset, moon_dtypes[dtype].name, (LUAI_UACINT)width);
    }
    sizes->ndim = 1;
    sizes->at[0] = rest / width;
    return true;
}

/*** moon.mmap(path, dtype, [sizes…], [{offset=, mode=}]) -> tensor | nil, message, errno
A tensor over a file's bytes, in row-major order from byte `offset` (0) on; 1-d to the end of the file unless sizes are given.
Nothing is read before it is touched. Modes: `"r"`, the default, is read-only; `"r+"` writes to the file; `"c"` keeps writes in
memory; `"w+"` makes the file, or empties it, and fills it with zeros up to the size needed. `x:free()` unmaps, once no
view is left. */
static int module_mmap(lua_State *L) {
    const char *path = check_path(L, 1);
    moon_dtype dtype = moonl_check_dtype(L, 2);
    moonl_sizes sizes;
    map_options options;
    int error = 0, next = lua_isnone(L, 3) ? 3 : moonl_check_sizes(L, 3, 0, &sizes);
    check_map_options(L, next, &options);
    if (options.offset % moon_dtypes[dtype].align) {
        return luaL_argerror(
            L, next,
            lua_pushfstring(L,
                            "offset %I is no multiple of %d, as %s needs; map \"uint8\" and give its x:tobytes() to "
                            "moon.from_string",
                            (LUAI_UACINT)options.offset, moon_dtypes[dtype].align, moon_dtypes[dtype].name));
    }
    if (next == 3 && !rest_of_file(L, path, dtype, &options, &sizes, &error)) return cannot_open(L, path, error);
    moon_draft draft;
    if (moon_draft_contiguous(&draft, dtype, sizes.ndim, sizes.at)) return moonl_raise(L);
    moon_tensor *t = moonl_new(L, sizes.ndim);
    moon_layout_copy(t, &draft.t);
    int64_t nbytes = t->numel * moon_dtypes[dtype].size;
    if (moon_map_file(path, options.mode, options.offset, nbytes, &error, &t->storage)) return cannot_open(L, path, error);
    t->readonly = t->storage->readonly;
    return 1;
}

/* ---- loading ---- */

/* what loading holds; closed at the end of the function, however it ends */
typedef struct file_box {
    moon_source source;
    moon_zip zip;
    moon_npz_member member;
    moon_safetensors header;
} file_box;

static int box_close(lua_State *L) {
    file_box *box = (file_box *)lua_touserdata(L, 1);
    moon_npz_close(&box->member);
    moon_zip_close(&box->zip);
    moon_safetensors_close(&box->header);
    moon_source_close(&box->source);
    return 0;
}

static file_box *push_box(lua_State *L) {
    file_box *box = (file_box *)lua_newuserdatauv(L, sizeof *box, 0);
    memset(box, 0, sizeof *box);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, box_close);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, box_close);
    lua_setfield(L, -2, "__close");
    lua_setmetatable(L, -2);
    lua_toclose(L, -1);
    return box;
}

/* again, once there is no garbage */
static bool worth_another_try(lua_State *L, moon_status status) {
    if (status != MOON_EMEMORY) return false;
    lua_gc(L, LUA_GCCOLLECT);
    return true;
}

static int load_npy(lua_State *L, const char *path) {
    moon_draft draft;
    moon_npy npy;
    int error;
    file_box *box = push_box(L);
    if (moon_source_open(&box->source, path, &error)) return cannot_open(L, path, error);
    if (moon_npy_parse(box->source.bytes, box->source.size, &draft, &npy)) return file_error(L, path);
    moon_tensor *t = moonl_push_alloc(L, &draft, moon_cpu());
    moon_npy_read(box->source.bytes, &npy, t);
    return 1;
}

static int load_npz(lua_State *L, const char *path) {
    moon_draft draft;
    size_t name;
    int error;
    file_box *box = push_box(L);
    if (moon_source_open(&box->source, path, &error)) return cannot_open(L, path, error);
    if (moon_zip_open(&box->zip, box->source.bytes, box->source.size)) return file_error(L, path);
    lua_createtable(L, 0, box->zip.count < INT32_MAX ? (int)box->zip.count : INT32_MAX);
    for (size_t i = 0; i < box->zip.count; i++) {
        moon_status status = moon_npz_open(&box->zip, i, &box->member, &draft, &name);
        if (worth_another_try(L, status)) status = moon_npz_open(&box->zip, i, &box->member, &draft, &name);
        if (status) return file_error(L, path);
        lua_pushlstring(L, box->zip.entries[i].name, name);
        moon_tensor *t = moonl_push_alloc(L, &draft, moon_cpu());
        moon_npy_read(box->member.bytes, &box->member.npy, t);
        moon_npz_close(&box->member);
        lua_rawset(L, -3);
    }
    return 1;
}

static void push_metadata(lua_State *L, const moon_safetensors *header) {
    if (header->metadata == NULL) {
        lua_pushnil(L);
        return;
    }
    lua_newtable(L);
    for (size_t i = 0; i < header->metadata_count; i++) {
        lua_pushlstring(L, header->metadata[i][0].text, header->metadata[i][0].length);
        lua_pushlstring(L, header->metadata[i][1].text, header->metadata[i][1].length);
        lua_rawset(L, -3);
    }
}

/* a view of the mapped file, or a copy where the file's offset is not aligned to the dtype */
static void push_safetensor(lua_State *L, const moon_safetensors *header, size_t i, const moon_tensor *file, const char *path) {
    moon_draft draft;
    if (moon_safetensors_layout(header, i, &draft)) file_error(L, path);
    int64_t at = draft.t.offset;
    if (at % moon_dtypes[draft.t.dtype].align == 0) {
        moonl_push_view(L, &draft, file);
        return;
    }
    draft.t.offset = 0;
    moon_tensor *t = moonl_push_alloc(L, &draft, moon_cpu());
    if (t->numel) memcpy(moon_data(t), moon_data(file) + at, (size_t)t->numel * moon_itemsize(t));
}

static int load_safetensors(lua_State *L, const char *path) {
    int error;
    int64_t size;
    moon_draft draft;
    file_box *box = push_box(L);
    if (moon_file_size(path, &size, &error)) return cannot_open(L, path, error);
    if (moon_draft_contiguous(&draft, MOON_UINT8, 1, &size)) return moonl_raise(L);
    moon_tensor *file = moonl_new(L, 1);
    lua_toclose(L, -1);
    moon_layout_copy(file, &draft.t);
    if (moon_map_file(path, MOON_MAP_PRIVATE, 0, size, &error, &file->storage)) return cannot_open(L, path, error);
    moon_status status = moon_safetensors_open(&box->header, (const uint8_t *)moon_data(file), (size_t)size);
    if (worth_another_try(L, status)) {
        status = moon_safetensors_open(&box->header, (const uint8_t *)moon_data(file), (size_t)size);
    }
    if (status) return file_error(L, path);
    lua_createtable(L, 0, box->header.count < INT32_MAX ? (int)box->header.count : INT32_MAX);
    for (size_t i = 0; i < box->header.count; i++) {
        lua_pushlstring(L, box->header.entries[i].name.text, box->header.entries[i].name.length);
        push_safetensor(L, &box->header, i, file, path);
        lua_rawset(L, -3);
    }
    push_metadata(L, &box->header);
    return 2;
}

/*** moon.load(path) -> tensor | table | nil, message, errno
What a file holds. Of `.npy` a tensor, column-major where the file is; of `.npz` a table from names to tensors; all in memory
of their own. Of `.safetensors` a table from names to tensors, and the file's `__metadata__` or nil: the tensors are views of one
private mapping, read when they are touched; writes to them stay in memory. */
static int module_load(lua_State *L) {
    format kind = check_format(L, 1);
    lua_settop(L, 1);
    const char *path = lua_tostring(L, 1);
    return kind == NPY ? load_npy(L, path) : kind == NPZ ? load_npz(L, path) : load_safetensors(L, path);
}

/* ---- saving ---- */

typedef struct saving {
    format format;
    const char *path;
    size_t count, metadata_count;
    moon_named *items;
    moon_text (*metadata)[2];
} saving;

static void bad_name(lua_State *L, int arg, const char *what) {
    const char *type = luaL_typename(L, -2), *text = luaL_tolstring(L, -2, NULL);
    luaL_argerror(L, arg, lua_pushfstring(L, "%s are strings, got %s (a %s)", what, text, type));
}

/* Push a table of the same names and tensors, which nobody else can change. */
static size_t push_checked(lua_State *L, int arg) {
    size_t count = 0;
    luaL_checktype(L, arg, LUA_TTABLE);
    lua_newtable(L);
    int own = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, arg)) {
        size_t n;
        if (lua_type(L, -2) != LUA_TSTRING) bad_name(L, arg, "names of tensors");
        const char *name = lua_tolstring(L, -2, &n);
        if (moon_name_check(name, n)) moonl_arg_raise(L, arg);
        if (moonl_test(L, -1) == NULL) {
            luaL_argerror(L, arg,
                          lua_pushfstring(L, "'%s' is a %s, tensor expected; moon.from and moon.tensor make one", name,
                                          luaL_typename(L, -1)));
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, own);
        count++;
    }
    return count;
}

static int by_name(const void *a, const void *b) {
    const moon_named *x = a, *y = b;
    return moon_name_compare(x->name, x->length, y->name, y->length);
}

static int by_reference_order(const void *a, const void *b) { return moon_safetensors_compare(a, b); }

static int by_key(const void *a, const void *b) {
    const moon_text *x = a, *y = b;
    return moon_name_compare(x->text, x->length, y->text, y->length);
}

/* items of the table on top, in the format's own order; leaves their array on the stack */
static void list_items(lua_State *L, saving *s) {
    int own = lua_gettop(L);
    s->items = (moon_named *)lua_newuserdatauv(L, (s->count + 1) * sizeof *s->items, 0);
    moon_named *item = s->items;
    lua_pushnil(L);
    while (lua_next(L, own)) {
        item->name = lua_tolstring(L, -2, &item->length);
        item->tensor = moonl_test(L, -1);
        moonl_open(L, item->tensor);
        item++;
        lua_pop(L, 1);
    }
    if (s->count) qsort(s->items, s->count, sizeof *s->items, s->format == NPZ ? by_name : by_reference_order);
}

/* the items of the table below in the order of the list on top, which names each of them once */
static void order_items(lua_State *L, saving *s, int own) {
    int list = lua_gettop(L);
    if (!lua_istable(L, list)) luaL_argerror(L, 3, "order= is a list of names");
    size_t n = (size_t)lua_rawlen(L, list);
    if (n != s->count) {
        luaL_argerror(L, 3, lua_pushfstring(L, "order= has %I names, the table has %I", (LUAI_UACINT)n, (LUAI_UACINT)s->count));
    }
    s->items = (moon_named *)lua_newuserdatauv(L, (n + 1) * sizeof *s->items, 0);
    lua_newtable(L); /* those seen: it keeps the names alive too */
    int seen = lua_gettop(L);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        if (lua_type(L, -1) != LUA_TSTRING) luaL_argerror(L, 3, "order= is a list of names");
        const char *name = lua_tolstring(L, -1, &s->items[i].length), *why = NULL;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, own) == LUA_TNIL) why = "is not in the table";
        s->items[i].tensor = moonl_test(L, -1);
        lua_pushvalue(L, -2);
        if (lua_rawget(L, seen) != LUA_TNIL) why = "is there twice";
        if (why) luaL_argerror(L, 3, lua_pushfstring(L, "order=: '%s' %s", name, why));
        lua_pop(L, 2);
        s->items[i].name = name;
        lua_pushboolean(L, 1);
        lua_rawset(L, seen);
    }
}

static void check_metadata(lua_State *L, saving *s) {
    int given = lua_gettop(L);
    if (!lua_istable(L, given)) luaL_argerror(L, 3, "metadata= is a table of strings");
    lua_newtable(L);
    int own = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, given)) {
        size_t n, k;
        if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING) {
            luaL_argerror(L, 3, "metadata= is a table of strings, by strings");
        }
        const char *key = lua_tolstring(L, -2, &k), *value = lua_tolstring(L, -1, &n);
        if (moon_utf8_valid(key, k) < k || moon_utf8_valid(value, n) < n) luaL_argerror(L, 3, "metadata= is not UTF-8");
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, own);
        s->metadata_count++;
    }
    s->metadata = (moon_text(*)[2])lua_newuserdatauv(L, (s->metadata_count + 1) * sizeof *s->metadata, 0);
    size_t i = 0;
    lua_pushnil(L);
    while (lua_next(L, own)) {
        s->metadata[i][0].text = lua_tolstring(L, -2, &s->metadata[i][0].length);
        s->metadata[i][1].text = lua_tolstring(L, -1, &s->metadata[i][1].length);
        i++;
        lua_pop(L, 1);
    }
    if (s->metadata_count) qsort(s->metadata, s->metadata_count, sizeof *s->metadata, by_key);
}

static void check_save_options(lua_State *L, saving *s, int own) {
    static const char *const names[] = {"order", "metadata", NULL};
    if (!lua_isnil(L, 3)) {
        luaL_checktype(L, 3, LUA_TTABLE);
        moonl_known_options(L, 3, names);
        if (lua_getfield(L, 3, "metadata") != LUA_TNIL) {
            if (s->format == NPZ) luaL_argerror(L, 3, "an .npz file has no room for metadata=; a .safetensors file has");
            check_metadata(L, s);
        }
        if (lua_getfield(L, 3, "order") != LUA_TNIL) {
            order_items(L, s, own);
            return;
        }
    }
    lua_pushvalue(L, own);
    list_items(L, s);
}

/* No Lua from here on: nothing frees a tensor, and nothing raises while the file is open. */
static moon_status write_items(const saving *s) {
    for (size_t i = 0; i < s->count; i++) {
        if (s->items[i].tensor->storage == NULL) return moon_fail(MOON_ECLOSED, "tensor is closed");
    }
    switch (s->format) {
    case NPY: return moon_npy_save(s->path, s->items[0].tensor);
    case NPZ: return moon_npz_save(s->path, s->count, s->items);
    default: return moon_safetensors_save(s->path, s->count, s->items, s->metadata_count, (const moon_text(*)[2])s->metadata);
    }
}

/*** moon.save(path, x | table, [{metadata=, order=}])
Writes a tensor to `.npy`, or a table of tensors by name to `.npz` or `.safetensors`, in one step: a file beside it is written,
synced and renamed, so that `path` holds the old or the new whole, and nothing else is left. Tensors of any layout are taken; what
NumPy can read has the bytes that NumPy writes. `.npz` is sorted by name, `.safetensors` as its reference does (wide dtypes
first, then by name); `order`, a list of all names, gives another one. `metadata` is a table of strings for `.safetensors`. */
static int module_save(lua_State *L) {
    saving s = {.format = check_format(L, 1)};
    moon_named single = {.length = 0};
    luaL_checkany(L, 2);
    lua_settop(L, 3);
    s.path = lua_tostring(L, 1);
    const moon_tensor *x = moonl_test(L, 2);
    if (s.format == NPY) {
        if (lua_istable(L, 2))
            return luaL_argerror(L, 2, "an .npy file holds one tensor; .npz and .safetensors hold a table of them");
        single.tensor = moonl_check(L, 2);
        s.items = &single;
        s.count = 1;
        if (!lua_isnil(L, 3)) return luaL_argerror(L, 3, "an .npy file takes no options");
    } else {
        if (x) return luaL_argerror(L, 2, "this format holds tensors by name: {name = x}; .npy holds one");
        s.count = push_checked(L, 2);
        check_save_options(L, &s, lua_gettop(L));
    }
    moon_status status = write_items(&s);
    if (worth_another_try(L, status)) status = write_items(&s);
    return status ? file_error(L, s.path) : 0;
}

static const moonl_entry functions[] = {{"mmap", module_mmap}, {"load", module_load}, {"save", module_save}, {NULL, NULL}};

void moonl_open_files(lua_State *L, int module, int methods, int meta) {
    (void)methods;
    (void)meta;
    moonl_register(L, module, functions);
}
