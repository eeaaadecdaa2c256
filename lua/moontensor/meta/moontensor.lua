---@meta moontensor
-- Written by scripts/docs.lua from the docstrings beside the code.

---@alias moontensor.dtype
---| "bool" | "int8" | "int16" | "int32" | "int64" | "uint8" | "uint16" | "uint32" | "uint64"
---| "float16" | "bfloat16" | "float32" | "float64" | "complex64" | "complex128" | "float8_e4m3fn" | "float8_e5m2"

---@alias moontensor.Operand moontensor.Tensor|number|boolean|moontensor.Complex

---@class moontensor.Complex
---@field re number
---@field im number
local Complex = {}

---@class moontensor.Generator

---@class moontensor.Tensor
---@field shape integer[]
---@field ndim integer
---@field dtype moontensor.dtype
---@field device string
---@field readonly boolean
---@operator add(any): moontensor.Tensor
---@operator sub(any): moontensor.Tensor
---@operator mul(any): moontensor.Tensor
---@operator div(any): moontensor.Tensor
---@operator idiv(any): moontensor.Tensor
---@operator mod(any): moontensor.Tensor
---@operator pow(any): moontensor.Tensor
---@operator unm: moontensor.Tensor
---@operator band(any): moontensor.Tensor
---@operator bor(any): moontensor.Tensor
---@operator bxor(any): moontensor.Tensor
---@operator bnot: moontensor.Tensor
---@operator len: integer
---@operator call(...): any
local Tensor = {}

local moon = {}

--- The version, such as `"moontensor 0.1.0"`.
moon._VERSION = nil

--- The table of tensor methods. A function put there is a method of every tensor.
moon.methods = nil

--- The elements, those below `low` raised to it and those above `high` lowered to it; either may be nil.
---@param low? any
---@param high? any
---@return moontensor.Tensor
function Tensor:clamp(low, high) end

--- As `clamp`, in place.
---@param low? any
---@param high? any
---@return moontensor.Tensor
function Tensor:clamp_(low, high) end

--- `x + weight * (b - x)`, a linear step from `x` towards `b`; `b` and `weight` are tensors or numbers. Halves compute in
--- float32 and are rounded once; of integers the result is a float.
---@param b any
---@param weight any
---@return moontensor.Tensor
function Tensor:lerp(b, weight) end

--- As `lerp`, in place.
---@param b any
---@param weight any
---@return moontensor.Tensor
function Tensor:lerp_(b, weight) end

--- The Euclidean norm: the square root of the sum of squared magnitudes.
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
function Tensor:norm(dim, options) end

--- exp(x) scaled so that it sums to 1 along the dimension; without overflow.
---@param dim integer
---@return moontensor.Tensor
function Tensor:softmax(dim) end

--- log(sum(exp(x))) along the dimension; without overflow.
---@param dim integer
---@param options? table
---@return moontensor.Tensor
function Tensor:logsumexp(dim, options) end

--- The matrix of all products of an element of `x` and one of `y`, both 1-d.
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:outer(y) end

--- Coordinates of a grid, as torch's with `indexing = "ij"`: of 1-d tensors, read-only views of one shape.
---@param x moontensor.Tensor
---@param y moontensor.Operand
---@param ... any
---@return moontensor.Tensor
---@return moontensor.Tensor
function moon.meshgrid(x, y, ...) end

--- One line: dtype, shape, device, bytes, and the smallest, largest and mean element where there are such.
---@return string
function Tensor:summary() end

--- A new tensor from a number, boolean, complex value, nested tables, or a copy of another tensor. Rows must have one length;
--- holes raise.
---@param value any
---@param options? table|moontensor.dtype
---@return moontensor.Tensor
function moon.tensor(value, options) end

--- Zeros; float32 unless a dtype is given.
---@param ... integer|integer[]
---@return moontensor.Tensor
function moon.zeros(...) end

--- Ones; float32 unless a dtype is given.
---@param ... integer|integer[]
---@return moontensor.Tensor
function moon.ones(...) end

--- A tensor whose elements are whatever the memory held.
---@param ... integer|integer[]
---@return moontensor.Tensor
function moon.empty(...) end

--- A tensor of the value, in the value's own dtype unless one is given. `sizes` is a table or one integer.
---@param sizes integer|integer[]
---@param value any
---@param options? table
---@return moontensor.Tensor
function moon.full(sizes, value, options) end

--- As `empty`, with the shape, dtype and device of `x`.
---@param x moontensor.Tensor
---@param options? table
---@return moontensor.Tensor
function moon.empty_like(x, options) end

--- As `zeros`, with the shape, dtype and device of `x`.
---@param x moontensor.Tensor
---@param options? table
---@return moontensor.Tensor
function moon.zeros_like(x, options) end

--- As `ones`, with the shape, dtype and device of `x`.
---@param x moontensor.Tensor
---@param options? table
---@return moontensor.Tensor
function moon.ones_like(x, options) end

--- As `full`, with the shape, dtype and device of `x`.
---@param x moontensor.Tensor
---@param value any
---@param options? table
---@return moontensor.Tensor
function moon.full_like(x, value, options) end

--- `first`, `first + step`, … up to but without `last`, as in torch: `arange(n)` is 0..n-1. int64 from integers, else float32.
---@param first? integer
---@param last integer
---@param step? number
---@param options? table
---@return moontensor.Tensor
function moon.arange(first, last, step, options) end

--- `n` numbers from `first` to `last`, both included, evenly spaced; float32 unless a dtype is given.
---@param first integer
---@param last integer
---@param n integer
---@param options? table
---@return moontensor.Tensor
function moon.linspace(first, last, n, options) end

--- An n × m matrix (n × n by default) with ones on the diagonal; float32 unless a dtype is given.
---@param n integer
---@param m? integer
---@param options? table
---@return moontensor.Tensor
function moon.eye(n, m, options) end

--- A tensor of the bytes of a string; 1-d unless sizes are given. The bytes are copied; with `copy = false` the tensor is read-only
--- and over the string itself, which it keeps. The inverse of `x:tobytes()`.
---@param bytes string
---@param dtype moontensor.dtype
---@param ... integer|integer[]
---@return moontensor.Tensor
function moon.from_string(bytes, dtype, ...) end

--- A tensor over memory of another C library: a light userdata, what is there, and how much. Nothing is copied, and nothing can be
--- checked but the alignment. `owner` is any Lua value that keeps the memory, a full userdata with a finalizer perhaps: it is held
--- as long as a view or a consumer of the memory lives, and let go when the next tensor is collected or made so, or by `moon.gc()`.
---@param pointer any
---@param dtype moontensor.dtype
---@param ... integer|integer[]
---@return moontensor.Tensor
function moon.from_pointer(pointer, dtype, ...) end

--- Lets go of the memory now instead of at the next collection. Views and consumers that share it keep it alive. Later use of
--- `x` raises "tensor is closed"; freeing twice is harmless. `local x <close> = …` does the same at the end of the block.
function Tensor:free() end

--- The extent of dimension `dim`, or the shape.
---@param dim? integer
---@return integer|table
function Tensor:size(dim) end

--- The stride of dimension `dim`, or all of them, in elements; negative after `flip` and reversed ranges.
---@param dim? integer
---@return integer|table
function Tensor:stride(dim) end

--- The number of elements.
---@return integer
function Tensor:numel() end

--- The number of dimensions, as `x.ndim`.
---@return integer
function Tensor:dim() end

--- Bytes of one element.
---@return integer
function Tensor:element_size() end

--- Bytes of all elements, `x:numel() * x:element_size()`.
---@return integer
function Tensor:nbytes() end

--- The address of the first element; for comparing with torch's `data_ptr()`. Off the CPU, the device's own address.
---@return integer
function Tensor:data_ptr() end

--- Whether the elements lie in row-major order without gaps.
---@return boolean
function Tensor:is_contiguous() end

--- Whether somebody outside holds the memory too: it was imported, or a consumer of an export is still alive. Views of `x` in
--- Lua do not count.
---@return boolean
function Tensor:is_shared() end

--- Whether the value is a native tensor, closed or not.
---@param value any
---@return boolean
function moon.is_tensor(value) end

--- Writes one element: an integer for every dimension, then the value.
---@param i integer
---@param j integer
---@param ... any
---@return moontensor.Tensor
function Tensor:set(i, j, ...) end

--- The value of a tensor with exactly one element.
---@return any
function Tensor:item() end

--- The text of one element, exact: uint64 above 2^63-1, which no Lua integer can hold, too. A 0-d tensor needs no indices; without
--- them any other tensor gives `tostring(x)`.
---@param i? integer
---@param j? integer
---@param ... any
---@return string
function Tensor:tostring(i, j, ...) end

--- The elements as nested tables, one level a dimension; of a 0-d tensor the value.
---@return table|any
function Tensor:totable() end

--- `length` elements of dimension `dim` from `first` on.
---@param dim integer
---@param first integer
---@param length integer
---@return moontensor.Tensor
function Tensor:narrow(dim, first, length) end

--- The view at index `i` of dimension `dim`, which goes away. Unlike `x[i]` it is a tensor also where it is 0-d.
---@param dim integer
---@param i integer
---@return moontensor.Tensor
function Tensor:select(dim, i) end

--- The range from `first` to `last`, both included, of dimension `dim`. A negative `step` walks backwards.
---@param dim integer
---@param first integer
---@param last integer
---@param step? number
---@return moontensor.Tensor
function Tensor:slice(dim, first, last, step) end

--- The transpose of a matrix; a 1-d or 0-d tensor as it is.
---@return moontensor.Tensor
function Tensor:t() end

--- Dimensions `a` and `b` exchanged.
---@param a any
---@param b any
---@return moontensor.Tensor
function Tensor:transpose(a, b) end

--- The dimensions in another order: every dimension once.
---@param ... integer
---@return moontensor.Tensor
function Tensor:permute(...) end

--- Dimension `from` moved to position `to`; the others keep their order.
---@param from integer
---@param to integer
---@return moontensor.Tensor
function Tensor:movedim(from, to) end

--- The same elements under another shape; one size may be -1. Raises where only a copy could have that shape (`reshape` copies).
--- Given a dtype of the same element size, the same bytes read as that dtype.
---@param ... integer|integer[]
---@return moontensor.Tensor
function Tensor:view(...) end

--- The same elements under another shape; one size may be -1. A view where the strides allow it, else a copy.
---@param ... integer|integer[]
---@return moontensor.Tensor
function Tensor:reshape(...) end

--- Dimensions `first` to `last` (all by default) made one. A view where the strides allow it, else a copy.
---@param first? integer
---@param last? integer
---@return moontensor.Tensor
function Tensor:flatten(first, last) end

--- Without dimension `dim` if its extent is 1; without every such dimension if none is named.
---@param dim? integer
---@return moontensor.Tensor
function Tensor:squeeze(dim) end

--- With a new dimension of extent 1 at position `dim`, up to `x.ndim + 1`.
---@param dim integer
---@return moontensor.Tensor
function Tensor:unsqueeze(dim) end

--- Dimensions of extent 1 repeated without copying, new ones in front; -1 keeps an extent. Read-only where anything is repeated.
---@param ... integer|integer[]
---@return moontensor.Tensor
function Tensor:expand(...) end

--- As `x:expand(sizes…)`.
---@param x moontensor.Tensor
---@param ... integer|integer[]
---@return moontensor.Tensor
function moon.broadcast_to(x, ...) end

--- The named dimensions (all if none is named) in reverse order: a view with negative strides, where torch copies.
---@param ... integer
---@return moontensor.Tensor
function Tensor:flip(...) end

--- The diagonal of dimensions `a` and `b` (1 and 2), `offset` above the main one, as the last dimension.
---@param offset? integer
---@param a? any
---@param b? any
---@return moontensor.Tensor
function Tensor:diagonal(offset, a, b) end

--- All windows of `size` elements along dimension `dim`, `step` apart; the windows are a new last dimension. Read-only where
--- they overlap.
---@param dim integer
---@param size integer|integer[]
---@param step number
---@return moontensor.Tensor
function Tensor:unfold(dim, size, step) end

--- The real parts of a complex tensor, as a view; any other tensor as it is.
---@return moontensor.Tensor
function Tensor:real() end

--- The imaginary parts of a complex tensor, as a view.
---@return moontensor.Tensor
function Tensor:imag() end

--- Views of `size` elements each along dimension `dim` (1), the last one perhaps shorter; or of the sizes in a table.
---@param size integer|integer[]
---@param dim? integer
---@return table
function Tensor:split(size, dim) end

--- At most `n` views of equal size along dimension `dim` (1), the last one perhaps shorter.
---@param n integer
---@param dim? integer
---@return table
function Tensor:chunk(n, dim) end

--- A contiguous copy with memory of its own.
---@return moontensor.Tensor
function Tensor:clone() end

--- `x` itself if it is contiguous, else a contiguous copy.
---@return moontensor.Tensor
function Tensor:contiguous() end

--- A copy in another dtype, as NumPy casts: towards zero for floats to integers, modulo 2^n between integers, to the nearest float
--- with ties to even, in one rounding. Any non-zero value is true, NaN too; complex to real drops the imaginary part. What C leaves
--- undefined between floats and integers is what NumPy and torch give on x86-64, on every machine:
---
--- | to | NaN, or below the range | above the range |
--- |---|---|---|
--- | int32, int64 | the lowest number | the lowest number |
--- | int8, int16, uint8, uint16 | the low bits of its int32 | the low bits of its int32 |
--- | uint32, uint64 | the bits of the signed dtype of that size: -1 gives the largest number, NaN the middle | 0 |
---
--- To float8_e4m3fn, which has no infinities, what is too large becomes NaN.
---@param dtype moontensor.dtype
---@return moontensor.Tensor
function Tensor:astype(dtype) end

--- `x` itself if it is on that device and of that dtype already, else a copy that is.
---@param device string
---@param dtype? moontensor.dtype
---@return moontensor.Tensor
function Tensor:to(device, dtype) end

--- The bytes of the elements in row-major order, as a string. The inverse of `moon.from_string`.
---@return string
function Tensor:tobytes() end

--- Writes the elements of `source`, broadcast and cast, into `x`. `source` is a tensor, nested tables, a value, or a torch or
--- NumPy object.
---@param source any
---@return moontensor.Tensor
function Tensor:copy_(source) end

--- Writes the value, or the one element of a tensor, into every element.
---@param value any
---@return moontensor.Tensor
function Tensor:fill_(value) end

--- Writes zeros.
---@return moontensor.Tensor
function Tensor:zero_() end

--- Whether shape, dtype and all elements are the same. NaN differs from NaN.
---@param a any
---@param b any
---@return boolean
function moon.equal(a, b) end

--- Whether `|a - b| <= atol + rtol * |b|` for every pair of elements, broadcast. `rtol` is 1e-5, `atol` 1e-8.
---@param a any
---@param b any
---@param options? table
---@return boolean
function moon.allclose(a, b, options) end

--- The sums of the elements up to each, along dimension `dim`. Bools and integers give int64 or uint64, as in `sum`; float32 is
--- summed in float64.
---@param dim integer
---@param options? table
---@return moontensor.Tensor
function Tensor:cumsum(dim, options) end

--- The products of the elements up to each, along dimension `dim`; dtypes as in `cumsum`.
---@param dim integer
---@param options? table
---@return moontensor.Tensor
function Tensor:cumprod(dim, options) end

--- The matrix product, as torch's: vectors dot, matrices multiply, leading dimensions are batches and broadcast.
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:matmul(y, options) end

--- The sum of the products of two vectors of one length, a 0-d tensor.
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:dot(y) end

--- The tensors of a list joined along dimension `dim` (1); their other extents must agree. The dtype is the promoted one.
---@param list moontensor.Tensor[]
---@param dim? integer
---@return moontensor.Tensor
function moon.cat(list, dim) end

--- The tensors of a list, of one shape, joined along a new dimension `dim` (1).
---@param list moontensor.Tensor[]
---@param dim? integer
---@return moontensor.Tensor
function moon.stack(list, dim) end

--- The elements of `a` where `cond` is not zero, else those of `b`; broadcast and promoted. `a` and `b` may be values.
---@param cond moontensor.Tensor
---@param a any
---@param b any
---@return moontensor.Tensor
function moon.where(cond, a, b) end

--- The tensor repeated `counts` times along its dimensions, the last count for the last one; missing counts are 1, and further
--- ones make new dimensions in front.
---@param ... any
---@return moontensor.Tensor
function Tensor:tile(...) end

--- Each element along dimension `dim` repeated `n` times, or as often as a table or tensor of counts says, next to itself; of all
--- elements in row-major order where no dimension is named.
---@param n integer
---@param dim? integer
---@return moontensor.Tensor
function Tensor:repeat_interleave(n, dim) end

--- The elements moved `shift` places up along dimension `dim`, those beyond the end come in at the start. With lists, one shift for
--- each dimension; without a dimension, all elements as one row.
---@param shift any
---@param dim? integer
---@return moontensor.Tensor
function Tensor:roll(shift, dim) end

--- `x` itself with other sizes, in row-major order, and as torch does it: the elements stay as they lie in memory, and where more
--- are needed than there is room for, the memory grows; what is new is not initialised. Only memory of its own that nobody else
--- holds is resized: not while a view of it, torch or NumPy has it.
---@param ... integer|integer[]
---@return moontensor.Tensor
function Tensor:resize_(...) end

--- A generator of its own, for `generator=`. `g:seed(n)` seeds it again.
---@param seed? integer
---@return moontensor.Generator
function moon.generator(seed) end

--- Seeds this Lua state's generator. torch's own is `torch.manual_seed`.
---@param seed integer
function moon.manual_seed(seed) end

--- Uniform numbers, 0 included and 1 not; float32 unless a dtype is given.
---@param ... integer|integer[]
---@return moontensor.Tensor
function moon.rand(...) end

--- Normal numbers of mean 0 and standard deviation 1; float32 unless a dtype is given.
---@param ... integer|integer[]
---@return moontensor.Tensor
function moon.randn(...) end

--- Integers from `low` (0) up to but without `high`, as in torch; int64 unless a dtype is given. `sizes` is a table.
---@param low? any
---@param high any
---@param sizes integer|integer[]
---@param options? table
---@return moontensor.Tensor
function moon.randint(low, high, sizes, options) end

--- The integers 1 to `n` in random order; int64 unless a dtype is given. Index values count from 1.
---@param n integer
---@param options? table
---@return moontensor.Tensor
function moon.randperm(n, options) end

--- The modulus of a complex value.
---@return number
function Complex:abs() end

--- The argument of a complex value, in radians.
---@return number
function Complex:arg() end

--- The conjugate of a complex value.
---@return moontensor.Complex
function Complex:conj() end

--- A complex value: what elements of complex tensors read as and are written from. Fields `re` and `im`; `==`, arithmetic with
--- numbers and other complex values, `tostring`; methods `abs`, `arg`, `conj`.
---@param re number
---@param im? number
---@return moontensor.Complex
function moon.complex(re, im) end

--- A tensor over a file's bytes, in row-major order from byte `offset` (0) on; 1-d to the end of the file unless sizes are given.
--- Nothing is read before it is touched. Modes: `"r"`, the default, is read-only; `"r+"` writes to the file; `"c"` keeps writes in
--- memory; `"w+"` makes the file, or empties it, and fills it with zeros up to the size needed. `x:free()` unmaps, once no
--- view is left.
---@param path string
---@param dtype moontensor.dtype
---@param ... integer|integer[]
---@return moontensor.Tensor|nil
---@return string
---@return any
function moon.mmap(path, dtype, ...) end

--- What a file holds. Of `.npy` a tensor, column-major where the file is; of `.npz` a table from names to tensors; all in memory
--- of their own. Of `.safetensors` a table from names to tensors, and the file's `__metadata__` or nil: the tensors are views of one
--- private mapping, read when they are touched; writes to them stay in memory.
---@param path string
---@return moontensor.Tensor|table|nil
---@return string
---@return any
function moon.load(path) end

--- Writes a tensor to `.npy`, or a table of tensors by name to `.npz` or `.safetensors`, in one step: a file beside it is written,
--- synced and renamed, so that `path` holds the old or the new whole, and nothing else is left. Tensors of any layout are taken; what
--- NumPy can read has the bytes that NumPy writes. `.npz` is sorted by name, `.safetensors` as its reference does (wide dtypes
--- first, then by name); `order`, a list of all names, gives another one. `metadata` is a table of strings for `.safetensors`.
---@param path string
---@param x moontensor.Tensor
---@param options? table
function moon.save(path, x, options) end

--- A tensor over the memory of any producer: a native tensor, a userdata with `__dlpack`, and through the bridge torch, NumPy,
--- DLPack, buffers and adapters. `force = true` detaches, moves to the CPU and copies. `readonly = false` demands a writable
--- tensor, `readonly = true` forbids writing. Plain tables need `dtype=` and are copied.
---@param obj any
---@param options? table|moontensor.dtype
---@return moontensor.Tensor
function moon.from(obj, options) end

--- Whether two tensors, or a tensor and a torch or NumPy object, have memory in common.
---@param a any
---@param b any
---@return boolean
function moon.shares(a, b) end

--- A torch tensor over the same memory. Read-only tensors, negative strides and overlap raise: torch cannot have them.
---@param options? table
---@return any
function Tensor:to_torch(options) end

--- A NumPy array over the same memory.
---@param options? table
---@return any
function Tensor:to_numpy(options) end

--- A DLPack capsule, versioned unless `max_version = false`.
---@param options? table
---@return any
function Tensor:to_dlpack(options) end

--- A Python memoryview of the same memory.
---@return any
function Tensor:memoryview() end

--- Live counters, all of which return to where they were once what was made is gone: `storages`, their `bytes`, `exports` held by
--- consumers outside, `imports` of foreign memory; and those of loaded modules, such as the bridge's `proxies`. They are the
--- process's, not this Lua state's. Beside them `cached_bytes`: freed memory that is kept for the next large tensor (at most
--- 256 MiB, in blocks of 256 KiB or more), and belongs to none.
---@return table
function moon.stats() end

--- Collects garbage until nothing more goes, and returns the bytes that are still alive. With `pages = true` free memory also goes
--- back to the operating system, `moon.empty_cache()` included. The library runs the collector by itself when many bytes of tensors have been allocated.
---@param pages? any
---@return integer
function moon.gc(pages) end

--- Gives the memory that is kept for large tensors to come back to the operating system; returns how many bytes that was. It is
--- given back by itself before an allocation fails.
---@return integer
function moon.empty_cache() end

--- The names of the devices that are there, and by name of a backend the reason why it is not.
---@return table
---@return table
function moon.devices() end

--- The full name of a device (`"cuda"` is `"cuda:0"`), or nil and the reason where it is missing; of the CPU without a name.
---@param name? string
---@return string|nil
---@return string
function moon.device(name) end

--- Waits until the device (the CPU by default, where nothing is ever pending) has done its work.
---@param device? string
function moon.synchronize(device) end

--- How many threads work on one large operation: as many as the process may use processors, or what `OMP_NUM_THREADS` says,
--- unless `moon.set_num_threads` changed it. Small operations never leave the calling thread.
---@return integer
function moon.get_num_threads() end

--- Sets it for the whole process, from 1 to 256. Results are the same, bit for bit, for any number of threads.
---@param n integer
function moon.set_num_threads(n) end

--- The instruction set that the CPU's inner loops use: `"base"`, `"v3"` (AVX2) or `"v4"` (AVX-512), the best that the processor
--- has. The environment variable `MOONTENSOR_ISA` names another when the module is loaded; all give the same bits.
---@return string
function moon.instruction_set() end

--- How tensors print: digits after the point (4); the number of elements above which a tensor is summarised (1000); how many are
--- then shown at each end of a dimension (3); characters in a line (80). Returns the options as they are now.
---@param options? table
---@return table
function moon.printoptions(options) end

--- The places of dimension `dim` that the 1-d `index` names, in its order, as a copy.
---@param dim integer
---@param index any
---@return moontensor.Tensor
function Tensor:index_select(dim, index) end

--- Picks along dimension `dim`: for `dim` 1 of two, `out(i, j)` is `x(index(i, j), j)`. `index` has as many dimensions as `x`, none longer
--- but `dim`; the result has its shape.
---@param dim integer
---@param index any
---@return moontensor.Tensor
function Tensor:gather(dim, index) end

--- The opposite of gather: for `dim` 1 of two, `x(index(i, j), j)` becomes `source(i, j)`. `source` is a value, or a tensor at least as
--- large as `index`, and is cast. Where an element is named twice, the last one in row-major order stays.
---@param dim integer
---@param index any
---@param source any
---@return moontensor.Tensor
function Tensor:scatter_(dim, index, source) end

--- The elements where `mask` is true, in row-major order, as a 1-d copy; `x` and `mask` are broadcast.
---@param mask any
---@return moontensor.Tensor
function Tensor:masked_select(mask) end

--- Writes the value, or the one element of a tensor, wherever `mask`, broadcast to `x`, is true.
---@param mask any
---@param value any
---@return moontensor.Tensor
function Tensor:masked_fill_(mask, value) end

--- The indices, from 1, of the elements that are not zero: an int64 tensor with a row for each of them, in row-major order, and a column
--- for each dimension.
---@return moontensor.Tensor
function Tensor:nonzero() end

--- a + b; integers wrap, bools: or
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:add(y, options) end

--- a + b; integers wrap, bools: or; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:add_(y) end

--- a - b; integers wrap
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:sub(y, options) end

--- a - b; integers wrap; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:sub_(y) end

--- a * b; integers wrap, bools: and
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:mul(y, options) end

--- a * b; integers wrap, bools: and; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:mul_(y) end

--- a / b; integers give floats
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:div(y, options) end

--- a / b; integers give floats; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:div_(y) end

--- floor(a / b); an integer divided by 0 is 0
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:floor_divide(y, options) end

--- floor(a / b); an integer divided by 0 is 0; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:floor_divide_(y) end

--- a - b * floor(a / b): the sign of b; an integer modulo 0 is 0
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:remainder(y, options) end

--- a - b * floor(a / b): the sign of b; an integer modulo 0 is 0; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:remainder_(y) end

--- a to the power b; integers wrap, and a negative exponent gives 0 but for a = 1 and -1
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:pow(y, options) end

--- a to the power b; integers wrap, and a negative exponent gives 0 but for a = 1 and -1; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:pow_(y) end

--- the smaller; NaN if either is
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:minimum(y, options) end

--- the smaller; NaN if either is; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:minimum_(y) end

--- the larger; NaN if either is
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:maximum(y, options) end

--- the larger; NaN if either is; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:maximum_(y) end

--- angle of the point (b, a)
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:atan2(y, options) end

--- angle of the point (b, a); in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:atan2_(y) end

--- -a; unsigned integers wrap
---@param options? table
---@return moontensor.Tensor
function Tensor:neg(options) end

--- -a; unsigned integers wrap; in place
---@return moontensor.Tensor
function Tensor:neg_() end

--- absolute value; complex: magnitude
---@param options? table
---@return moontensor.Tensor
function Tensor:abs(options) end

--- absolute value; complex: magnitude; in place
---@return moontensor.Tensor
function Tensor:abs_() end

--- -1, 0 or 1; NaN gives 0
---@param options? table
---@return moontensor.Tensor
function Tensor:sign(options) end

--- -1, 0 or 1; NaN gives 0; in place
---@return moontensor.Tensor
function Tensor:sign_() end

--- square root
---@param options? table
---@return moontensor.Tensor
function Tensor:sqrt(options) end

--- square root; in place
---@return moontensor.Tensor
function Tensor:sqrt_() end

--- 1 / sqrt(a)
---@param options? table
---@return moontensor.Tensor
function Tensor:rsqrt(options) end

--- 1 / sqrt(a); in place
---@return moontensor.Tensor
function Tensor:rsqrt_() end

--- e to the power a
---@param options? table
---@return moontensor.Tensor
function Tensor:exp(options) end

--- e to the power a; in place
---@return moontensor.Tensor
function Tensor:exp_() end

--- exp(a) - 1, exact near 0
---@param options? table
---@return moontensor.Tensor
function Tensor:expm1(options) end

--- exp(a) - 1, exact near 0; in place
---@return moontensor.Tensor
function Tensor:expm1_() end

--- natural logarithm
---@param options? table
---@return moontensor.Tensor
function Tensor:log(options) end

--- natural logarithm; in place
---@return moontensor.Tensor
function Tensor:log_() end

--- log(1 + a), exact near 0
---@param options? table
---@return moontensor.Tensor
function Tensor:log1p(options) end

--- log(1 + a), exact near 0; in place
---@return moontensor.Tensor
function Tensor:log1p_() end

--- logarithm to base 2
---@param options? table
---@return moontensor.Tensor
function Tensor:log2(options) end

--- logarithm to base 2; in place
---@return moontensor.Tensor
function Tensor:log2_() end

--- logarithm to base 10
---@param options? table
---@return moontensor.Tensor
function Tensor:log10(options) end

--- logarithm to base 10; in place
---@return moontensor.Tensor
function Tensor:log10_() end

--- sine of radians
---@param options? table
---@return moontensor.Tensor
function Tensor:sin(options) end

--- sine of radians; in place
---@return moontensor.Tensor
function Tensor:sin_() end

--- cosine of radians
---@param options? table
---@return moontensor.Tensor
function Tensor:cos(options) end

--- cosine of radians; in place
---@return moontensor.Tensor
function Tensor:cos_() end

--- tangent of radians
---@param options? table
---@return moontensor.Tensor
function Tensor:tan(options) end

--- tangent of radians; in place
---@return moontensor.Tensor
function Tensor:tan_() end

--- arc sine
---@param options? table
---@return moontensor.Tensor
function Tensor:asin(options) end

--- arc sine; in place
---@return moontensor.Tensor
function Tensor:asin_() end

--- arc cosine
---@param options? table
---@return moontensor.Tensor
function Tensor:acos(options) end

--- arc cosine; in place
---@return moontensor.Tensor
function Tensor:acos_() end

--- arc tangent
---@param options? table
---@return moontensor.Tensor
function Tensor:atan(options) end

--- arc tangent; in place
---@return moontensor.Tensor
function Tensor:atan_() end

--- hyperbolic sine
---@param options? table
---@return moontensor.Tensor
function Tensor:sinh(options) end

--- hyperbolic sine; in place
---@return moontensor.Tensor
function Tensor:sinh_() end

--- hyperbolic cosine
---@param options? table
---@return moontensor.Tensor
function Tensor:cosh(options) end

--- hyperbolic cosine; in place
---@return moontensor.Tensor
function Tensor:cosh_() end

--- hyperbolic tangent
---@param options? table
---@return moontensor.Tensor
function Tensor:tanh(options) end

--- hyperbolic tangent; in place
---@return moontensor.Tensor
function Tensor:tanh_() end

--- error function
---@param options? table
---@return moontensor.Tensor
function Tensor:erf(options) end

--- error function; in place
---@return moontensor.Tensor
function Tensor:erf_() end

--- largest integer not above
---@param options? table
---@return moontensor.Tensor
function Tensor:floor(options) end

--- largest integer not above; in place
---@return moontensor.Tensor
function Tensor:floor_() end

--- smallest integer not below
---@param options? table
---@return moontensor.Tensor
function Tensor:ceil(options) end

--- smallest integer not below; in place
---@return moontensor.Tensor
function Tensor:ceil_() end

--- nearest integer, halves to even
---@param options? table
---@return moontensor.Tensor
function Tensor:round(options) end

--- nearest integer, halves to even; in place
---@return moontensor.Tensor
function Tensor:round_() end

--- integer part
---@param options? table
---@return moontensor.Tensor
function Tensor:trunc(options) end

--- integer part; in place
---@return moontensor.Tensor
function Tensor:trunc_() end

--- complex conjugate
---@param options? table
---@return moontensor.Tensor
function Tensor:conj(options) end

--- complex conjugate; in place
---@return moontensor.Tensor
function Tensor:conj_() end

--- argument of a complex number; pi for negative reals
---@param options? table
---@return moontensor.Tensor
function Tensor:angle(options) end

--- argument of a complex number; pi for negative reals; in place
---@return moontensor.Tensor
function Tensor:angle_() end

--- a == b
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:eq(y, options) end

--- a == b; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:eq_(y) end

--- a ~= b
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:ne(y, options) end

--- a ~= b; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:ne_(y) end

--- a < b
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:lt(y, options) end

--- a < b; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:lt_(y) end

--- a <= b
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:le(y, options) end

--- a <= b; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:le_(y) end

--- a > b
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:gt(y, options) end

--- a > b; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:gt_(y) end

--- a >= b
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:ge(y, options) end

--- a >= b; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:ge_(y) end

--- is it NaN
---@param options? table
---@return moontensor.Tensor
function Tensor:isnan(options) end

--- is it NaN; in place
---@return moontensor.Tensor
function Tensor:isnan_() end

--- is it an infinity
---@param options? table
---@return moontensor.Tensor
function Tensor:isinf(options) end

--- is it an infinity; in place
---@return moontensor.Tensor
function Tensor:isinf_() end

--- is it neither NaN nor an infinity
---@param options? table
---@return moontensor.Tensor
function Tensor:isfinite(options) end

--- is it neither NaN nor an infinity; in place
---@return moontensor.Tensor
function Tensor:isfinite_() end

--- both are non-zero
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:logical_and(y, options) end

--- both are non-zero; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:logical_and_(y) end

--- one is non-zero
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:logical_or(y, options) end

--- one is non-zero; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:logical_or_(y) end

--- just one is non-zero
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:logical_xor(y, options) end

--- just one is non-zero; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:logical_xor_(y) end

--- it is zero
---@param options? table
---@return moontensor.Tensor
function Tensor:logical_not(options) end

--- it is zero; in place
---@return moontensor.Tensor
function Tensor:logical_not_() end

--- bits in both; bools: and
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:bitwise_and(y, options) end

--- bits in both; bools: and; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:bitwise_and_(y) end

--- bits in one; bools: or
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:bitwise_or(y, options) end

--- bits in one; bools: or; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:bitwise_or_(y) end

--- bits in just one; bools: not equal
---@param y moontensor.Operand
---@param options? table
---@return moontensor.Tensor
function Tensor:bitwise_xor(y, options) end

--- bits in just one; bools: not equal; in place
---@param y moontensor.Operand
---@return moontensor.Tensor
function Tensor:bitwise_xor_(y) end

--- bits flipped; bools: not
---@param options? table
---@return moontensor.Tensor
function Tensor:bitwise_not(options) end

--- bits flipped; bools: not; in place
---@return moontensor.Tensor
function Tensor:bitwise_not_() end

--- sum, pairwise for floats; bools and integers give int64 or uint64
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
function Tensor:sum(dim, options) end

--- product; bools and integers give int64 or uint64
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
function Tensor:prod(dim, options) end

--- mean; bools and integers give float64
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
function Tensor:mean(dim, options) end

--- variance with correction 1
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
function Tensor:var(dim, options) end

--- standard deviation with correction 1
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
function Tensor:std(dim, options) end

--- smallest; NaN if one is
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
---@return moontensor.Tensor indices
function Tensor:min(dim, options) end

--- largest; NaN if one is
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
---@return moontensor.Tensor indices
function Tensor:max(dim, options) end

--- index of the first smallest, counted from 1
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
function Tensor:argmin(dim, options) end

--- index of the first largest, counted from 1
---@param dim? integer
---@param options? table
---@return moontensor.Tensor
function Tensor:argmax(dim, options) end

--- is one non-zero
---@param dim? integer
---@param options? table
---@return moontensor.Tensor|boolean
function Tensor:any(dim, options) end

--- are all non-zero
---@param dim? integer
---@param options? table
---@return moontensor.Tensor|boolean
function Tensor:all(dim, options) end

return moon
