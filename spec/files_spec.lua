local moon = require "moontensor"
local py = require "moontensor.python"
require "moontensor.luassert"

local np = py.import "numpy"
local has_safetensors, theirs = pcall(py.import, "safetensors.torch")
local BINARY = py.import "builtins"

local NUMPY = {
  "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
  "complex64", "complex128",
}
local TORCH_ONLY = {"bfloat16", "float8_e4m3fn", "float8_e5m2"}
local SHAPES = {{}, {0}, {1}, {3}, {2, 3}, {0, 4}, {4, 1, 3}, {2, 3, 4, 5}}

local folder, names
local function path(name) return folder .. "/" .. name end

local function read(name)
  local file = assert(io.open(path(name), "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end

local function write(name, bytes)
  local file = assert(io.open(path(name), "wb"))
  file:write(bytes)
  file:close()
  return path(name)
end

-- what is in the folder, sorted
local function listing()
  return table.concat(py.tolua(BINARY.sorted(py.import "os".listdir(folder))), " ")
end

-- any bytes; of bool only those it has
local function random(dtype, shape)
  local n = moon.empty(shape, dtype):nbytes()
  local bytes = {}
  for i = 1, n do bytes[i] = string.char(math.random(0, dtype == "bool" and 1 or 255)) end
  return moon.from_string(table.concat(bytes), dtype, shape)
end

-- views of fresh memory of one shape: row-major, column-major, strided and reversed
local function layouts(dtype, shape)
  local list = {random(dtype, shape)}
  if #shape >= 2 then
    local order, back = {}, {}
    for i = 1, #shape do order[i], back[i] = shape[#shape + 1 - i], #shape + 1 - i end
    list[2] = random(dtype, order):permute(back)
  end
  if #shape >= 1 and shape[1] > 0 then
    local wide = {table.unpack(shape)}
    wide[1] = 2 * wide[1]
    list[#list + 1] = random(dtype, wide):slice(1, -1, 1, -2)
  end
  return list
end

-- same dtype, shape and bits
local function same(a, b)
  assert.equal(a.dtype, b.dtype)
  assert.same(a.shape, b.shape)
  assert.is_true(a:tobytes() == b:tobytes())
end

local function fails(f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, part in ipairs {...} do
    if not tostring(message):find(part, 1, true) then error(("%q is not in: %s"):format(part, message), 2) end
  end
  return message
end

-- moon.load of these bytes under this name raises; the message names the file and the parts
local function refused(name, bytes, ...)
  write(name, bytes)
  return fails(function() moon.load(path(name)) end, path(name) .. ": ", ...)
end

local function npy(header, data, version)
  version = version or 1
  header = header .. "\n"
  return "\x93NUMPY" .. string.char(version, 0) .. string.pack(version == 1 and "<s2" or "<s4", header) .. (data or "")
end

local function fields(descr, shape, fortran)
  return ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }"):format(descr, fortran or "False", shape)
end

local function tensors_file(json, data) return string.pack("<s8", json) .. (data or "") end

-- what a Lua program prints that cannot write more than half a kilobyte or so
local function cramped(code)
  local command = [[ulimit -f 1; trap '' XFSZ; exec %s -e 'local moon = require "moontensor"; %s' 2>&1]]
  local pipe = assert(io.popen(command:format(os.getenv "LUA" or "lua5.4", code)))
  local output = pipe:read "a"
  pipe:close()
  return output
end

describe("files", function()
  require "spec.support.baseline"(setup, teardown)

  setup(function()
    math.randomseed(4)
    folder = py.import "tempfile".mkdtemp()
  end)
  teardown(function()
    py.import "shutil".rmtree(folder)
  end)
  before_each(function() names = listing() end)

  describe(".npy", function()
    it("has the bytes that NumPy writes, for every dtype, shape and layout, and reads back", function()
      local n = 0
      for _, dtype in ipairs(NUMPY) do
        for _, shape in ipairs(SHAPES) do
          for _, x in ipairs(layouts(dtype, shape)) do
            moon.save(path "ours.npy", x)
            np.save(path "theirs.npy", x:to_numpy())
            assert.is_true(read "ours.npy" == read "theirs.npy")
            same(x, moon.load(path "theirs.npy"))
            n = n + 1
          end
        end
      end
      assert.equal(14 * 17, n)
    end)

    it("reads versions 1 to 3, either byte order, and column-major", function()
      for _, dtype in ipairs(NUMPY) do
        local x = random(dtype, {3, 4})
        for version = 1, 3 do
          for _, order in ipairs {"<", ">"} do
            for _, layout in ipairs {"C", "F"} do
              local a = np.array(x:to_numpy():astype(np.dtype(dtype):newbyteorder(order)), py.kw{order = layout})
              local file = BINARY.open(path "a.npy", "wb")
              np.lib.format.write_array(file, a, py.tuple{version, 0})
              file:close()
              local y = moon.load(path "a.npy")
              same(x, y)
              assert.same(layout == "C" and {4, 1} or {1, 3}, y:stride())
              assert.is_false(y.readonly)
            end
          end
        end
      end
    end)

    it("takes headers as Python may write them", function()
      local data = string.pack("<i2i2", 1, -2)
      local x = moon.tensor({1, -2}, "int16")
      for _, header in ipairs {
        "{'shape': (2,), 'fortran_order': False, 'descr': '<i2'}", '{"descr":"<i2","fortran_order":False,"shape":(2 , )}',
        "{'descr': '<i2', 'fortran_order': True, 'shape': (2L,), }   ",
        "\t{ 'descr' : '=i2' , 'fortran_order' : False , 'shape' : ( 2 , ) , }",
      } do
        write("h.npy", npy(header, data))
        same(x, moon.load(path "h.npy"))
      end
      write("h.NPY", npy("{'descr': '|u1', 'fortran_order': False, 'shape': ()}", "\7"))
      assert.equal(7, moon.load(path "h.NPY"):item())
    end)

    it("refuses what tensors cannot hold, and says what can", function()
      np.save(path "r.npy", np.zeros(2, "i4,f8"))
      fails(function() moon.load(path "r.npy") end, "r.npy: field 'descr': structured dtypes", "an array for each field")
      np.save(path "r.npy", np.array(py.list{py.none}, py.kw{dtype = "O"}), py.kw{allow_pickle = true})
      fails(function() moon.load(path "r.npy") end, "dtype '|O' holds Python objects")
      np.save(path "r.npy", np.array(py.list{"text"}))
      fails(function() moon.load(path "r.npy") end, "dtype '<U4' holds text")
      np.save(path "r.npy", np.array(py.list{py.bytes "text"}))
      fails(function() moon.load(path "r.npy") end, "dtype '|S4' holds text")
      np.save(path "r.npy", np.zeros(2, "M8[s]"))
      fails(function() moon.load(path "r.npy") end, "dtype '<M8[s]' holds dates", "view('i8')")
      np.save(path "r.npy", np.zeros(2, "longdouble"))
      fails(function() moon.load(path "r.npy") end, "'<f16' is an extended float")
      refused("r.npy", npy(fields("|V2", "(1,)"), "ab"), "dtype '|V2' holds raw bytes", "bfloat16", ".safetensors")
      refused("r.npy", npy(fields("<f3", "(1,)"), "abc"), "dtype '<f3' is none of NumPy's")
      for _, descr in ipairs {"i4", "|i4", "<f04", "<f", "<4", "", "\0f4", "<f44444444444", "<f4 ", "<b2", "<c4"} do
        refused("r.npy", npy(fields(descr, "(1,)"), "abcd"), "field 'descr': dtype '")
      end
      for _, dtype in ipairs(TORCH_ONLY) do
        local x = moon.zeros(2, dtype)
        fails(function() moon.save(path "bf.npy", x) end, "NumPy's format lacks " .. dtype, ".safetensors", "astype")
      end
    end)

    it("names the field and the value of a malformed header", function()
      local cases = {
        {"{'descr': '<f4', 'fortran_order': False}", "lacks the field 'shape'"},
        {"{'descr': '<f4', 'shape': (0,)}", "lacks the field 'fortran_order'"},
        {"{'fortran_order': False, 'shape': (0,)}", "lacks the field 'descr'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), 'x': 1}", "unknown field 'x'"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", "field 'descr' is there twice"},
        {fields("<f4", "(-3,)"), "field 'shape': the extent '-3' is negative"},
        {fields("<f4", "(99999999999999999999,)"), "the extent '99999999999999999999' overflows"},
        {fields("<f4", "(9223372036854775807, 2)"), "[9223372036854775807, 2] in float32 overflows 64 bits"},
        {fields("<f4", "(4611686018427387904, 0)"), "overflows 64 bits"},
        {fields("<f4", "(0)"), "field 'shape' is an integer"},
        {fields("<f4", "(0, x)"), "an integer in field 'shape' expected at byte"},
        {fields("<f4", "(0 1)"), "',' or ')' in field 'shape'"},
        {fields("<f4", "[0]"), "a tuple in field 'shape'"},
        {fields("<f4", "(" .. ("1, "):rep(65) .. ")"), "more than 64 dimensions"},
        {fields("<f4", "(0,)", "0"), "True or False in field 'fortran_order'"},
        {fields("<f\\x34", "(0,)"), "a closing quote"},
        {"{'descr': 1, 'fortran_order': False, 'shape': (0,)}", "a dtype in field 'descr' expected at byte 10"},
        {fields("<f4", "(0,)") .. "x", "the end of the header expected at byte"},
        {"__import__('os').abort()", "'{' expected at byte 0 of the header, got '_'"},
        {"{\0}", "a key expected at byte 1 of the header, got '\\x00'"},
        {"{" .. ("{"):rep(5000), "a key expected at byte 1"},
      }
      for _, case in ipairs(cases) do refused("m.npy", npy(case[1]), case[2]) end
      refused("m.npy", "", "0 bytes are too few")
      refused("m.npy", ("x"):rep(100), "does not start with \\x93NUMPY")
      refused("m.npy", npy(fields("<f4", "(0,)"), "", 4), "version 4.0 is not supported; 1.0, 2.0 and 3.0 are")
      refused("m.npy", "\x93NUMPY\2\0" .. string.pack("<I4", 0xfffffff0) .. "{}", "the header is 4294967280 bytes long", "but 2 follow")
      refused("m.npy", npy(fields("<f4", "(2, 3)"), "1234"), "[2, 3] in float32 takes 24 bytes, but 4 follow")
      refused("m.npy", npy(fields("<f4", "(1,)"), "12345"), "takes 4 bytes, but 5 follow")
      refused("m.npy", npy(fields("<f8", "(1000000000000,)"), "1234"), "takes 8000000000000 bytes, but 4 follow")
    end)

    it("is an error when it is cut off anywhere", function()
      local whole = npy(fields("<f4", "(2, 2)"), ("x"):rep(16))
      for n = 0, #whole - 1 do refused("t.npy", whole:sub(1, n)) end
    end)
  end)

  describe(".npz", function()
    local function zip(entries, method, more)
      local archive = py.import "zipfile"
      local file = archive.ZipFile(path "z.npz", "w", method or archive.ZIP_STORED)
      for _, entry in ipairs(entries) do file:writestr(entry[1], py.bytes(entry[2])) end
      if more then more(file) end
      file:close()
      return read "z.npz"
    end

    it("goes both ways with NumPy, stored and deflated", function()
      for _, dtype in ipairs(NUMPY) do
        local all = {}
        for i, shape in ipairs(SHAPES) do
          for k, x in ipairs(layouts(dtype, shape)) do all[("%d_%d"):format(i, k)] = x end
        end
        all["ж/b c"] = random(dtype, {2})
        moon.save(path "ours.npz", all)
        local ours = np.load(path "ours.npz")
        assert.equal(18, #ours.files)
        local arguments = {}
        for name, x in pairs(all) do
          arguments[name] = x:to_numpy()
          assert.equal(arguments[name].dtype.name, ours[{name}].dtype.name)
          assert.is_true(ours[{name}]:tobytes() == arguments[name]:tobytes())
          assert.equal(tostring(arguments[name].shape), tostring(ours[{name}].shape))
        end
        ours:close()
        np.savez(path "stored.npz", py.kw(arguments))
        np.savez_compressed(path "packed.npz", py.kw(arguments))
        for _, file in ipairs {"ours.npz", "stored.npz", "packed.npz"} do
          local loaded, count = moon.load(path(file)), 0
          for name, y in pairs(loaded) do
            same(all[name], y)
            count = count + 1
          end
          assert.equal(18, count)
        end
      end
    end)

    it("writes the same bytes for the same tensors, sorted by name", function()
      local x = moon.arange(4)
      moon.save(path "a.npz", {b = x, a = x, c = x})
      moon.save(path "b.npz", {c = x, a = x, b = x})
      assert.is_true(read "a.npz" == read "b.npz")
      assert.equal("a b c", table.concat(py.tolua(np.load(path "a.npz").files), " "))
      moon.save(path "a.npz", {b = x, a = x}, {order = {"b", "a"}})
      assert.equal("b a", table.concat(py.tolua(np.load(path "a.npz").files), " "))
      moon.save(path "a.npz", {})
      assert.is_nil(next(moon.load(path "a.npz")))
    end)

    it("inflates what zlib deflates, at every level and by every strategy", function()
      local zlib, archive = py.import "zlib", py.import "zipfile"
      local deflate = py.eval("lambda data, level, strategy: (z := __import__('zlib').compressobj(level, 8, -15, 8, strategy)) " ..
        "and z.compress(data) + z.flush()")
      local texts = {"", "a", ("ab"):rep(40000), ("\0"):rep(300000), random("uint8", {70000}):tobytes()}
      local words = {}
      for i = 1, 30000 do words[i] = ({"tensor", "stride", "lua", "moon", "\n"})[math.random(5)] .. math.random(99) end
      texts[#texts + 1] = table.concat(words)
      for _, text in ipairs(texts) do
        local whole = npy(fields("|u1", ("(%d,)"):format(#text)), text)
        for _, level in ipairs {0, 1, 6, 9} do
          for _, strategy in ipairs {0, 1, 2, 3, 4} do
            local packed = deflate(py.bytes(whole), level, strategy)
            local name, crc = "x.npy", zlib.crc32(py.bytes(whole))
            local common = string.pack("<I2I2I2I2I2I4I4I4I2I2", 20, 0, 8, 0, 33, crc, #packed, #whole, #name, 0)
            local start = "PK\3\4" .. common .. name .. packed
            local central = "PK\1\2" .. string.pack("<I2", 20) .. common .. string.pack("<I2I2I2I4I4", 0, 0, 0, 0, 0) .. name
            write("d.npz", start .. central .. "PK\5\6" .. string.pack("<I2I2I2I2I4I4I2", 0, 0, 1, 1, #central, #start, 0))
            assert.is_true(archive.is_zipfile(path "d.npz"))
            assert.is_true(moon.load(path "d.npz").x:tobytes() == text)
          end
        end
      end
    end)

    it("reads zip64 records, comments and data descriptors", function()
      local archive = py.import "zipfile"
      local x = moon.arange(20)
      local limit = archive.ZIP64_LIMIT
      archive.ZIP64_LIMIT = 8
      np.savez_compressed(path "wide.npz", py.kw{x = x:to_numpy(), y = x:to_numpy()})
      archive.ZIP64_LIMIT = limit
      assert.is_true(read "wide.npz":find("PK\6\6", 1, true) ~= nil)
      local wide = moon.load(path "wide.npz")
      same(x, wide.x)
      same(x, wide.y)
      moon.save(path "x.npy", x)
      zip({{"x.npy", read "x.npy"}}, nil, function(file) file.comment = py.bytes(("c"):rep(65535)) end)
      same(x, moon.load(path "z.npz").x)
      py.exec(([[
import zipfile, io
class Pipe(io.RawIOBase):
    def __init__(self, f): self.f = f
    def writable(self): return True
    def seekable(self): return False
    def write(self, b): return self.f.write(b)
with open(%q, "wb") as f, zipfile.ZipFile(Pipe(f), "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("x.npy", open(%q, "rb").read())
]]):format(path "piped.npz", path "x.npy"))
      assert.is_true(read "piped.npz":find("PK\7\8", 1, true) ~= nil)
      same(x, moon.load(path "piped.npz").x)
    end)

    it("refuses names, methods and entries that are not what they say", function()
      local one = npy(fields("|u1", "(3,)"), "abc")
      local archive = py.import "zipfile"
      refused("z.npz", zip {{"../x.npy", one}}, "the name '../x.npy' is a path that leads out")
      refused("z.npz", zip {{"/x.npy", one}}, "leads out")
      refused("z.npz", zip {{"a/../../x.npy", one}}, "leads out")
      refused("z.npz", zip {{"readme.txt", "text"}}, "entry 'readme.txt' is no array")
      refused("z.npz", zip {{".npy", one}}, "entry '.npy' is no array")
      refused("z.npz", zip {{"x.npy", one:sub(1, -2)}}, "entry 'x.npy': field 'shape': [3] in uint8 takes 3 bytes, but 2 follow")
      refused("z.npz", zip({{"x.npy", one}}, archive.ZIP_BZIP2), "entry 'x.npy': compression method 12 is not supported")
      local good = zip {{"aa.npy", one}, {"bb.npy", one}}
      refused("z.npz", (good:gsub("aa%.npy", "a\0.npy")), "the name 'a\\x00.npy' contains a NUL")
      refused("z.npz", (good:gsub("aa%.npy", "a\xff.npy")), "the name 'a\\xff.npy' is not UTF-8")
      refused("z.npz", (good:gsub("bb%.npy", "aa.npy")), "entry 'aa.npy': the name is there twice")
      refused("z.npz", (good:gsub("abc", "abd", 1)), "entry 'aa.npy': its CRC is", "damaged")
      refused("z.npz", (good:gsub("aa%.npy", "cc.npy", 1)), "its local header has another name")
      local first = good:find("PK\1\2", 1, true)
      local function patched(at, format, ...)
        local bytes = string.pack(format, ...)
        return good:sub(1, first - 1 + at) .. bytes .. good:sub(first + at + #bytes)
      end
      refused("z.npz", patched(8, "<I2", 1), "entry 'aa.npy': it is encrypted")
      refused("z.npz", patched(20, "<I4I4", 1 << 30, 1 << 30), "entry 'aa.npy': its 1073741824 bytes at 0 reach beyond")
      refused("z.npz", patched(42, "<I4", 7), "no local header at 7")
      refused("z.npz", patched(24, "<I4", 5), "its two sizes differ")
      refused("z.npz", patched(10, "<I2", 8), "another compression method")
      refused("z.npz", patched(42, "<I4", 0xffffffff), "its zip64 sizes are missing")
      refused("z.npz", good .. "x", "its end record is missing")
      refused("z.npz", "x" .. good, "does not end where its end record stands")
      refused("z.npz", "", "0 bytes are too few")
      local packed = zip({{"aa.npy", npy(fields("|u1", "(90,)"), ("abc"):rep(30))}}, archive.ZIP_DEFLATED)
      first = packed:find("PK\1\2", 1, true)
      good = packed
      refused("z.npz", patched(24, "<I4", 1 << 30), "bytes cannot unpack to 1073741824")
      refused("z.npz", patched(24, "<I4", 100), "entry 'aa.npy': malformed deflate data: it is longer than the size given")
    end)

    it("refuses entries that overlap", function()
      -- two entries of the directory name data of which one lies within the other's
      local inner = npy(fields("|u1", "(1,)"), "x")
      local function header(mark, size, name, crc, at)
        local common = string.pack("<I2I2I2I2I2I4I4I4I2I2", 20, 0, 0, 0, 33, crc, size, size, #name, 0)
        if mark == "PK\3\4" then return mark .. common .. name end
        return mark .. string.pack("<I2", 20) .. common .. string.pack("<I2I2I2I4I4", 0, 0, 0, 0, at) .. name
      end
      local nested = header("PK\3\4", #inner, "b.npy", 0) .. inner
      local outer = header("PK\3\4", #nested, "a.npy", 0)
      local central = header("PK\1\2", #nested, "a.npy", 0, 0) .. header("PK\1\2", #inner, "b.npy", 0, #outer)
      local data = outer .. nested
      refused("o.npz", data .. central .. "PK\5\6" .. string.pack("<I2I2I2I2I4I4I2", 0, 0, 2, 2, #central, #data, 0),
        "the entries 'a.npy' and 'b.npy' overlap")
    end)

    it("is an error when it is cut off anywhere, or a byte of it is changed and noticed", function()
      local archive = py.import "zipfile"
      for _, method in ipairs {archive.ZIP_STORED, archive.ZIP_DEFLATED} do
        local whole = zip({{"x.npy", npy(fields("<i4", "(4,)"), string.pack("<i4i4i4i4", 1, 2, 3, 4))}}, method)
        for n = 0, #whole - 1 do refused("t.npz", whole:sub(1, n)) end
        local undamaged = moon.load(path "z.npz").x
        for n = 1, #whole do
          write("t.npz", whole:sub(1, n - 1) .. string.char(whole:byte(n) ~ 0x41) .. whole:sub(n + 1))
          local ok, loaded = pcall(moon.load, path "t.npz")
          if ok then -- times, versions, attributes: nothing that is about the array
            local _, x = next(loaded)
            assert.is_true(moon.equal(undamaged, x))
          end
        end
      end
    end)
  end)

  describe(".safetensors", function()
    local SAFE = {}
    for _, dtype in ipairs(NUMPY) do if dtype ~= "complex128" then SAFE[#SAFE + 1] = dtype end end
    for _, dtype in ipairs(TORCH_ONLY) do SAFE[#SAFE + 1] = dtype end

    local function sample()
      local all = {}
      for _, dtype in ipairs(SAFE) do
        for i, shape in ipairs(SHAPES) do
          for k, x in ipairs(layouts(dtype, shape)) do all[("%s.%d.%d"):format(dtype, i, k)] = x end
        end
      end
      all['quoted " \\ \n \1 ж 🌙'] = moon.tensor({1.5})
      return all
    end

    it("has the bytes that the safetensors package writes, and goes both ways", function()
      if not has_safetensors then return pending "no safetensors package in this Python (pip install safetensors)" end
      local all, given = sample(), {}
      for name, x in pairs(all) do given[name] = x:to_torch{copy = true} end
      theirs.save_file(py.dict(given), path "theirs.safetensors", py.kw{metadata = py.dict{format = "pt"}})
      moon.save(path "ours.safetensors", all, {metadata = {format = "pt"}})
      assert.is_true(read "ours.safetensors" == read "theirs.safetensors")
      local back = theirs.load_file(path "ours.safetensors")
      assert.equal(#SAFE * 17 + 1, #back)
      for name, x in pairs(all) do same(x, moon.from(back[{name}], {copy = true})) end
    end)

    it("loads what it saves: all dtypes, shapes and layouts, with metadata, as views of one mapping", function()
      local all = sample()
      moon.save(path "all.safetensors", all, {metadata = {note = "ein \"Wort\"\n", [""] = ""}})
      collectgarbage()
      collectgarbage()
      local before = moon.stats()
      local loaded, metadata = moon.load(path "all.safetensors")
      assert.same({note = "ein \"Wort\"\n", [""] = ""}, metadata)
      assert.equal(before.imports + 1, moon.stats().imports)
      assert.equal(before.bytes, moon.stats().bytes)
      local n = 0
      for name, x in pairs(loaded) do
        same(all[name], x)
        assert.equal(0, x:data_ptr() % 8 % x:element_size())
        n = n + 1
      end
      assert.equal(#SAFE * 17 + 1, n)
      -- writes stay in memory
      local bytes = read "all.safetensors"
      loaded["float32.5.1"]:fill_(3)
      assert.equal(3, loaded["float32.5.1"](2, 3))
      assert.is_true(bytes == read "all.safetensors")
      for _, x in pairs(loaded) do x:free() end
      assert.equal(before.imports, moon.stats().imports)
    end)

    it("hands torch a view of the mapping", function()
      moon.save(path "w.safetensors", {w = moon.arange(6):view(2, 3):astype "bfloat16"})
      local w = moon.load(path "w.safetensors").w
      local t = w:to_torch()
      assert.equal(w:data_ptr(), t:data_ptr())
      w:free()
      assert.equal(15, t:sum():item())
    end)

    it("writes in the order that is given", function()
      local x, y = moon.ones(3, "uint8"), moon.tensor({1.5, 2.5})
      moon.save(path "o.safetensors", {a = x, b = y}, {order = {"a", "b"}})
      assert.equal('{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}}',
        (read "o.safetensors":sub(9):match "^(.-})%s*\1"))
      -- b is not aligned: a copy, the bits the same
      local loaded = moon.load(path "o.safetensors")
      same(x, loaded.a)
      same(y, loaded.b)
      assert.equal(0, loaded.b:data_ptr() % 4)
      moon.save(path "o.safetensors", {a = x, b = y})
      assert.equal("b", (read "o.safetensors":match '^........{"(.)"'))
      fails(function() moon.save(path "o.safetensors", {a = x}, {order = {"b"}}) end, "order=: 'b' is not in the table")
      fails(function() moon.save(path "o.safetensors", {a = x, b = y}, {order = {"b", "b"}}) end, "order=: 'b' is there twice")
      fails(function() moon.save(path "o.safetensors", {a = x, b = y}, {order = {"b"}}) end, "order= has 1 names, the table has 2")
      fails(function() moon.save(path "o.safetensors", {a = x}, {order = {1}}) end, "order= is a list of names")
    end)

    it("refuses what the format lacks", function()
      fails(function() moon.save(path "c.safetensors", {z = moon.zeros(1, "complex128")}) end, "'z': safetensors lacks complex128", ".npz")
      fails(function() moon.save(path "c.safetensors", {__metadata__ = moon.zeros(1)}) end, "'__metadata__' is the format's own")
      fails(function() moon.save(path "c.safetensors", {}, {metadata = {a = 1}}) end, "metadata= is a table of strings")
      fails(function() moon.save(path "c.safetensors", {}, {metadata = {a = "\xff"}}) end, "not UTF-8")
      refused("c.safetensors", tensors_file('{"a":{"dtype":"F4","shape":[0],"data_offsets":[0,0]}}'),
        "tensor 'a': field 'dtype': 'F4' is none that moontensor has")
    end)

    it("names the tensor, the field and the value of a malformed header", function()
      local function tensor(name, shape, from, to)
        return ('"%s":{"dtype":"U8","shape":%s,"data_offsets":[%s,%s]}'):format(name, shape, from, to)
      end
      local cases = {
        {"{" .. tensor("a", "[2]", 0, 2) .. "," .. tensor("b", "[2]", 1, 3) .. "}", "123",
          "tensor 'b'", "starts at 1", "ends at 2", "overlap"},
        {"{" .. tensor("a", "[2]", 0, 2) .. "," .. tensor("b", "[2]", 0, 2) .. "}", "12", "overlap"},
        {"{" .. tensor("a", "[1]", 0, 1) .. "," .. tensor("b", "[1]", 2, 3) .. "}", "123", "tensor 'b'", "starts at 2", "hole"},
        {"{" .. tensor("a", "[1]", 1, 2) .. "}", "12", "starts at 1", "hole"},
        {"{" .. tensor("a", "[1]", 0, 1) .. "}", "12", "the tensors take 1 bytes, but 2 follow"},
        {"{" .. tensor("a", "[3]", 0, 3) .. "}", "12", "the tensors take 3 bytes, but 2 follow"},
        {"{" .. tensor("a", "[3]", 0, 2) .. "}", "12", "tensor 'a': field 'shape': [3] in uint8 takes 3 bytes", "[0, 2] leave 2"},
        {"{" .. tensor("a", "[1]", 0, 1) .. "," .. tensor("a", "[1]", 1, 2) .. "}", "12", "the name 'a' is there twice"},
        {"{" .. tensor("a", "[1]", 0, 1) .. "," .. tensor("\\u0061", "[1]", 1, 2) .. "}", "12", "the name 'a' is there twice"},
        {"{" .. tensor("../a", "[1]", 0, 1) .. "}", "1", "the name '../a' is a path that leads out"},
        {"{" .. tensor("", "[1]", 0, 1) .. "}", "1", "the name '' is empty"},
        {"{" .. tensor("a\\u0000b", "[1]", 0, 1) .. "}", "1", "the name 'a\\x00b' contains a NUL"},
        {"{" .. tensor("a\\ud83d", "[1]", 0, 1) .. "}", "1", "a lone surrogate"},
        {"{" .. tensor("a\\ud83d\\u0041", "[1]", 0, 1) .. "}", "1", "a lone surrogate"},
        {"{" .. tensor("a\\udc00", "[1]", 0, 1) .. "}", "1", "a lone surrogate"},
        {"{" .. tensor("a\\x", "[1]", 0, 1) .. "}", "1", "an escape expected", "got 'x'"},
        {"{" .. tensor("a\n", "[1]", 0, 1) .. "}", "1", "text without control characters"},
        {"{" .. tensor("a", "[-1]", 0, 1) .. "}", "1", "tensor 'a': field 'shape': '-1' is negative"},
        {"{" .. tensor("a", "[99999999999999999999]", 0, 1) .. "}", "1", "'99999999999999999999' overflows 64 bits"},
        {"{" .. tensor("a", "[9223372036854775807,3]", 0, 1) .. "}", "1", "[9223372036854775807, 3] in uint8 overflows"},
        {"{" .. tensor("a", "[1.0]", 0, 1) .. "}", "1", "an integer's end expected", "got '.'"},
        {"{" .. tensor("a", "[01]", 0, 1) .. "}", "1", "'01' starts with a zero"},
        {"{" .. tensor("a", "[" .. ("1,"):rep(64) .. "1]", 0, 1) .. "}", "1", "more than 64 dimensions"},
        {"{" .. tensor("a", "[1]", 1, 0) .. "}", "1", "field 'data_offsets': it ends at 0, before its start at 1"},
        {"{" .. tensor("a", "[1]", 0, -1) .. "}", "1", "field 'data_offsets': '-1' is negative"},
        {'{"a":{"dtype":"U8","shape":[0]}}', "", "tensor 'a': field 'data_offsets' is missing"},
        {'{"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}}', "", "field 'dtype' is there twice"},
        {'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}}', "", "tensor 'a': unknown field 'x'"},
        {'{"a":[]}', "", "'{' expected at byte 5 of the header, got '['"},
        {'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},}', "", "a string expected"},
        {'{"__metadata__":{"a":1}}', "", "'__metadata__': a string expected"},
        {'{"__metadata__":{"a":"1","a":"2"}}', "", "'__metadata__': the key 'a' is there twice"},
        {'{"__metadata__":{},"__metadata__":{}}', "", "'__metadata__' is there twice"},
        {"{}x", "", "the end of the header expected at byte 2"},
        {'{"a\xff":1}', "", "the header is not UTF-8, from byte 3 on"},
        {" {}", "", "does not start with '{'"},
        {("{\"a\":"):rep(20000), "", "unknown field 'a'"},
      }
      for _, case in ipairs(cases) do refused("m.safetensors", tensors_file(case[1], case[2]), table.unpack(case, 3)) end
      refused("m.safetensors", "1234567", "7 bytes are too few")
      refused("m.safetensors", string.pack("<I8", 0), "does not start with '{'")
      refused("m.safetensors", string.pack("<I8", -1) .. "{}", "the header is 18446744073709551615 bytes long", "but 2 follow")
      refused("m.safetensors", string.pack("<I8", 3) .. "{}", "the header is 3 bytes long", "but 2 follow")
    end)

    it("is an error when it is cut off anywhere", function()
      moon.save(path "cut.safetensors", {a = moon.ones(3), b = moon.ones(2, "uint8")}, {metadata = {k = "v"}})
      local whole = read "cut.safetensors"
      for n = 0, #whole - 1 do refused("t.safetensors", whole:sub(1, n)) end
    end)
  end)

  describe("moon.mmap", function()
    it("reads where the bytes lie, at any offset", function()
      write("m.bin", ("x"):rep(4096 + 8) .. string.pack("<i4i4i4i4i4i4", 1, 2, 3, 4, 5, 6))
      local x = moon.mmap(path "m.bin", "int32", {2, 3}, {offset = 4096 + 8})
      assert.tensor_equal(moon.tensor({{1, 2, 3}, {4, 5, 6}}, "int32"), x)
      assert.is_true(x.readonly)
      fails(function() x:fill_(1) end, "read-only")
      assert.tensor_equal(moon.tensor({4, 5, 6}, "int32"), moon.mmap(path "m.bin", "int32", {offset = 4096 + 20}))
      assert.equal(4096 + 32, moon.mmap(path "m.bin", "uint8"):numel())
      assert.equal(6, moon.mmap(path "m.bin", "int32", {}, {offset = 4096 + 28}):item())
      assert.same({0, 3}, moon.mmap(path "m.bin", "int32", 0, 3).shape)
      local tail = moon.mmap(path "m.bin", "int32", 0, {offset = 4096 + 32})
      assert.equal(0, tail:numel())
      assert.is_true(tail.readonly)
    end)

    it("unmaps by free, and when the last view goes", function()
      write("unmap.bin", string.pack("<i8i8", 1, 2))
      collectgarbage()
      local before = moon.stats().imports
      local x = moon.mmap(path "unmap.bin", "int64")
      local view = x[{{2, 2}}]
      assert.equal(before + 1, moon.stats().imports)
      local function mapped()
        local file = io.open "/proc/self/maps"
        if not file then return nil end
        local text = file:read "a"
        file:close()
        return text:find(path "unmap.bin", 1, true) ~= nil
      end
      assert.is_not_false(mapped())
      x:free()
      assert.equal(2, view[1])
      view:free()
      assert.equal(before, moon.stats().imports)
      assert.is_not_true(mapped())
    end)

    it("writes to the file by r+, keeps writes by c, sees others' writes by r", function()
      write("m.bin", string.pack("<i4i4", 1, 2))
      local shared, private = moon.mmap(path "m.bin", "int32", 2, {mode = "r+"}), moon.mmap(path "m.bin", "int32", 2, {mode = "c"})
      local reader = moon.mmap(path "m.bin", "int32", 2, {mode = "r"})
      private[1] = 9
      shared[2] = 7
      assert.same({1, 7}, reader:totable())
      assert.same({9, 2}, private:totable()) -- the page is its own since its first write
      assert.equal(string.pack("<i4i4", 1, 7), read "m.bin")
      assert.tensor_equal(moon.tensor({1, 7}, "int32"), moon.from(np.memmap(path "m.bin", "int32", "c"), {copy = true}))
    end)

    it("makes a file of zeros by w+", function()
      write("w.bin", ("x"):rep(100))
      local x = moon.mmap(path "w.bin", "float32", 2, 2, {mode = "w+", offset = 8})
      assert.tensor_equal(moon.zeros(2, 2), x)
      x[{2, 2}] = 1
      assert.equal(("\0"):rep(20) .. string.pack("<f", 1), read "w.bin")
      moon.mmap(path "new.bin", "uint8", 3, {mode = "w+"})[1] = 65
      assert.equal("A\0\0", read "new.bin")
      moon.mmap(path "none.bin", "uint8", 0, {mode = "w+"})
      assert.equal("", read "none.bin")
      fails(function() moon.mmap(path "w.bin", "uint8", {mode = "w+"}) end, "a new file needs sizes")
      names = listing()
      assert.matches("cramped.bin: cannot make the file 100000 bytes long: File too large", cramped(
        ([[print(pcall(moon.mmap, "%s", "uint8", 100000, {mode = "w+"}))]]):format(path "cramped.bin")))
      assert.equal(names, listing())
    end)

    it("takes offsets beyond 4 GiB", function()
      local file = assert(io.open(path "sparse.bin", "wb"))
      file:seek("set", (5 << 30) + 4)
      file:write(string.pack("<i4", 42))
      file:close()
      assert.equal(42, moon.mmap(path "sparse.bin", "int32", 1, {offset = (5 << 30) + 4})[1])
      local whole = moon.mmap(path "sparse.bin", "int32")
      assert.equal((5 << 28) + 2, whole:numel())
      assert.equal(42, whole[-1])
      whole:free()
      os.remove(path "sparse.bin")
    end)

    it("names both sizes of a file that is too short, and what else is wrong", function()
      write("s.bin", ("x"):rep(10))
      local function map(...) return pcall(moon.mmap, path "s.bin", ...) end
      local function message(...) return (select(2, map(...))) end
      assert.matches("s.bin: the file has 10 bytes, 16 are needed %(12 from offset 4 on%)", message("float32", 3, {offset = 4}))
      assert.matches("the file has 10 bytes; those from offset 0 on are no whole number of int32", message "int32")
      assert.matches("the file has 10 bytes; those from offset 12 on", message("int32", {offset = 12}))
      assert.matches("offset 2 is no multiple of 4, as float32 needs", message("float32", 1, {offset = 2}))
      assert.matches("offset= is a number of bytes, got %-1", message("uint8", 1, {offset = -1}))
      assert.matches("mode= is \"r\".*got rw", message("uint8", 1, {mode = "rw"}))
      assert.matches("unknown option 'off'", message("uint8", 1, {off = 1}))
      assert.matches("unknown dtype 'f4'", message("f4", 1))
      assert.matches("overflow", message("uint8", math.maxinteger, {offset = 8}))
      assert.matches("overflows 64 bits", message("float64", math.maxinteger))
      assert.matches("size %-1 is negative", message("uint8", -1))
      fails(function() moon.mmap(folder, "uint8") end, folder .. ": not a regular file")
      assert.equal("xxxxxxxxxx", read "s.bin")
    end)

    it("is nil and a message for a file that is not there", function()
      local x, text, code = moon.mmap(path "absent.bin", "uint8", 3)
      assert.is_nil(x)
      assert.equal(path "absent.bin" .. ": No such file or directory", text)
      assert.equal(2, code)
      assert.is_nil((moon.mmap(path "absent.bin", "uint8")))
      assert.is_nil((moon.mmap(path "absent.bin", "uint8", 3, {mode = "r+"})))
      assert.is_nil((moon.mmap(path "absent/x.bin", "uint8", 3, {mode = "w+"})))
      assert.equal(names, listing())
    end)
  end)

  describe("moon.load and moon.save", function()
    it("give nil and a message for what is not there, as io.open does", function()
      for _, ending in ipairs {".npy", ".npz", ".safetensors"} do
        local name = path("absent" .. ending)
        local x, text, code = moon.load(name)
        local _, io_text, io_code = io.open(name)
        assert.is_nil(x)
        assert.equal(io_text, text)
        assert.equal(io_code, code)
      end
      py.import "os".mkdir(path "dir.npy")
      fails(function() moon.load(path "dir.npy") end, "dir.npy: not a regular file")
      fails(function() moon.save(path "dir.npy", moon.ones(1)) end, "dir.npy: not a regular file")
    end)

    it("check their arguments", function()
      local x = moon.ones(2)
      fails(function() moon.load("x.bin") end, "bad argument #1 to", "no format for 'x.bin'; the endings are .npy, .npz and .safetensors")
      fails(function() moon.load("") end, "a path is neither empty")
      fails(function() moon.load("a\0.npy") end, "a NUL")
      fails(function() moon.load(nil) end, "string expected")
      fails(function() moon.save(path "x.npy", {x = x}) end, "bad argument #2", "an .npy file holds one tensor")
      fails(function() moon.save(path "x.npz", x) end, "bad argument #2", "{name = x}")
      fails(function() moon.save(path "x.npz", {x}) end, "names of tensors are strings, got 1 (a number)")
      fails(function() moon.save(path "x.npz", {a = 1}) end, "'a' is a number, tensor expected")
      fails(function() moon.save(path "x.npz", {["../a"] = x}) end, "the name '../a' is a path that leads out")
      fails(function() moon.save(path "x.npz", {["a\0"] = x}) end, "contains a NUL")
      fails(function() moon.save(path "x.npz", {["\xff"] = x}) end, "not UTF-8")
      fails(function() moon.save(path "x.npz", {[("a"):rep(70000)] = x}) end, "70000 bytes is too long")
      fails(function() moon.save(path "x.npz", {a = x}, {metadata = {}}) end, "an .npz file has no room for metadata=")
      fails(function() moon.save(path "x.npy", x, {}) end, "takes no options")
      fails(function() moon.save(path "x.npz", {a = x}, {ordre = {}}) end, "unknown option 'ordre'")
      fails(function() moon.save(path "x.npy") end, "bad argument #2")
      local closed = moon.ones(2)
      closed:free()
      fails(function() moon.save(path "x.npy", closed) end, "closed")
      fails(function() moon.save(path "x.npz", {a = closed}) end, "closed")
      assert.equal(names, listing())
    end)

    it("leave the old file, and nothing else, when they fail", function()
      moon.save(path "keep.npz", {a = moon.ones(2)})
      names = listing()
      local bytes = read "keep.npz"
      fails(function() moon.save(path "keep.npz", {a = moon.ones(2), b = moon.ones(1, "bfloat16")}) end, "keep.npz: 'b': NumPy's format")
      assert.is_true(bytes == read "keep.npz")
      fails(function() moon.save(path "no/such/x.npy", moon.ones(1)) end, "no/such/x.npy: cannot create a file beside it")
      assert.equal(names, listing())
      assert.matches("false.*keep.npz: cannot write: File too large", cramped(
        ([[print(pcall(moon.save, "%s", {a = moon.ones(100000)}))]]):format(path "keep.npz")))
      assert.is_true(bytes == read "keep.npz")
      assert.equal(names, listing())
    end)

    it("keep permissions and follow links", function()
      local system = py.import "os"
      moon.save(path "mode.npy", moon.ones(1))
      system.chmod(path "mode.npy", 384) -- 0600
      system.symlink(path "mode.npy", path "link.npy")
      moon.save(path "link.npy", moon.zeros(1))
      assert.is_true(system.path.islink(path "link.npy"))
      assert.equal(0, moon.load(path "mode.npy")[1])
      assert.equal(384, system.stat(path "mode.npy").st_mode & 511)
    end)

    it("take what they replace: the source may lie in the file that is written", function()
      moon.save(path "self.safetensors", {a = moon.arange(5), b = moon.ones(2)})
      local loaded = moon.load(path "self.safetensors")
      loaded.b:fill_(4)
      moon.save(path "self.safetensors", loaded)
      assert.tensor_equal(moon.arange(5), loaded.a)
      loaded = moon.load(path "self.safetensors")
      assert.tensor_equal(moon.arange(5), loaded.a)
      assert.same({4, 4}, loaded.b:totable())
    end)
  end)
end)
