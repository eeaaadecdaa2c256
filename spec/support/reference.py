"""What NumPy (torch, where NumPy has no such function) makes of the same memory; spec/differential_spec.lua compares.

Tensors come as (dtype, array). bfloat16 and float8, which NumPy lacks, come as their bits: decoded here to float32, computed in
it and rounded once, by a table of all their values, which shares nothing with core's conversions.
"""
import warnings

import numpy as np
import torch

np.seterr(all="ignore")
warnings.simplefilter("ignore")


def _table(codes, exponent_bits, mantissa_bits, bias):
    """The values of the codes 0, 1, …: finite ones, and where the next would be, which stands for infinity (e4m3: NaN)."""
    code = np.arange(codes + 1)
    e, m = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    scale = np.where(e == 0, 1 - bias, e - bias) - mantissa_bits
    return np.ldexp(np.where(e == 0, m, m + (1 << mantissa_bits)).astype(np.longdouble), scale)


# bits, values by code, the code of NaN
NARROW = {
    "bfloat16": (np.uint16, _table(0x7F80, 8, 7, 127), 0x7FC0),
    "float8_e4m3fn": (np.uint8, _table(0x7F, 4, 3, 7), 0x7F),
    "float8_e5m2": (np.uint8, _table(0x7C, 5, 2, 15), 0x7F),
}


def decode(dtype, x):
    bits, values, _ = NARROW[dtype]
    top = np.iinfo(bits).max // 2 + 1
    code = (x & (top - 1)).astype(np.int64)
    last = len(values) - 1
    v = values[np.minimum(code, last)].astype(np.float32)
    beyond = np.where(code == last, np.nan if dtype == "float8_e4m3fn" else np.inf, np.nan)
    v = np.where(code >= last, beyond, v).astype(np.float32)
    return np.where(x >= top, -v, v).astype(np.float32)


def encode(dtype, x):
    """To nearest, ties to even, in one step from any real dtype; a long double holds them all."""
    bits, values, nan = NARROW[dtype]
    top = np.iinfo(bits).max // 2 + 1
    wide = np.asarray(x).astype(np.longdouble)
    size = np.abs(wide)
    high = np.clip(np.searchsorted(values, size), 1, len(values) - 1)
    low = high - 1
    up, down = values[high] - size, size - values[low]
    code = np.where((up < down) | ((up == down) & (high % 2 == 0)), high, low)
    code = np.where(np.isnan(wide), nan, code)
    return (code + np.where(np.signbit(wide), top, 0)).astype(bits)


def plain(dtype, x):
    return decode(dtype, x) if dtype in NARROW else np.asarray(x)


FLOAT8 = ("float8_e4m3fn", "float8_e5m2")


def common(dtypes):
    """torch's promotion where there is one of its own dtypes, else NumPy's; float8 as spec/differences.lua says."""
    if not any(d in NARROW for d in dtypes):
        return np.result_type(*dtypes).name
    result = dtypes[0]
    for d in dtypes[1:]:
        if result == d:
            continue
        kinds = [np.dtype(t).kind if t not in NARROW else "n" for t in (result, d)]
        if result in FLOAT8 or d in FLOAT8:
            other = d if result in FLOAT8 else result
            if result in FLOAT8 and d in FLOAT8:
                result = "float32"
            elif other in NARROW or np.dtype(other).kind in "fc":
                result = other
            else:
                result = result if result in FLOAT8 else d
        elif kinds == ["n", "n"]:
            raise AssertionError("unreachable")
        else:
            result = str(torch.promote_types(getattr(torch, result), getattr(torch, d)))[6:]
    return result


def _erf(a):
    if a.dtype == np.float16:
        return _erf(a.astype(np.float32)).astype(np.float16)
    if a.dtype.kind in "biu":
        a = a.astype(np.float32 if a.itemsize < 4 else np.float64)
    if a.dtype.kind == "c":
        raise TypeError("erf of complex")
    return torch.erf(torch.from_numpy(np.ascontiguousarray(a))).numpy().reshape(a.shape)


def integer_power(a, b, dtype):
    """torch's: a negative power is 0, but for 1 and -1."""
    np.add(a, b)  # a number that does not fit is refused by NumPy here
    base, exponent = np.broadcast_arrays(np.asarray(a).astype(dtype), np.asarray(b).astype(dtype))
    want = np.power(base, np.maximum(exponent, 0))
    if dtype.kind == "i":
        odd = np.where(exponent % 2 == 0, 1, -1)
        want = np.where(exponent < 0, np.where(base == 1, 1, np.where(base == -1, odd, 0)), want).astype(dtype)
    return want


OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "floor_divide": np.floor_divide,
    "remainder": np.remainder, "pow": np.power, "minimum": np.minimum, "maximum": np.maximum, "atan2": np.arctan2,
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "erf": _erf, "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "conj": np.conjugate,
    "angle": np.angle, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert,
}


def ordered(x):
    """Floats as integers in their order, so that a difference counts the steps between them."""
    i = x.view("i%d" % x.itemsize).astype(np.int64)
    return np.where(i < 0, np.iinfo("i%d" % x.itemsize).min - i, i)


def steps(want, got):
    """The largest distance in units of the last place; NaNs are alike."""
    both = np.isnan(want) & np.isnan(got)
    if np.any(np.isnan(want) != np.isnan(got)):
        return np.inf
    if want.size == 0:
        return 0
    a, b = ordered(want), ordered(got)
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    d = np.where((a < 0) == (b < 0), np.abs(a - b), apart) # across 0 the difference of integers may overflow
    d = np.where((a == b) | both, 0, np.maximum(d, np.where(a != b, 1, 0)))
    return d.max()


def text(x):
    with np.printoptions(threshold=24, linewidth=110):
        return "%s %s %s" % (x.dtype, x.shape, np.array2string(x))


def spot(want, got, args):
    """The first element that differs, with what it was made of."""
    a, b = np.asarray(want), np.asarray(got)
    for index in np.ndindex(a.shape):
        x, y = a[index], b[index]
        if x.tobytes() != y.tobytes() and not (x != x and y != y):
            made = ", of %s" % [np.broadcast_to(v, a.shape)[index] for v in args]
            return "at %s: expected %r, got %r%s" % (index, x, y, made if args else "")
    return ""


def differ(want, dtype, got, ulp, args=()):
    """None, or how the result differs. want: an array, for narrow dtypes already their bits."""
    if dtype in NARROW:
        if ulp == 0:
            a, b = want.copy(), got.copy()
            a[np.isnan(decode(dtype, want))] = b[np.isnan(decode(dtype, got))] = 0
            return None if np.array_equal(a, b) else spot(decode(dtype, want), decode(dtype, got), args)
        half = np.iinfo(want.dtype).max // 2 + 1
        codes = [np.where(x >= half, half - x.astype(np.int64), x.astype(np.int64)) for x in (want, got)]
        nans = [np.isnan(decode(dtype, x)) for x in (want, got)]
        far = np.where(nans[0] | nans[1], nans[0] != nans[1], np.abs(codes[0] - codes[1]) > ulp)
        return spot(decode(dtype, want), decode(dtype, got), args) if far.any() else None
    if want.shape != got.shape:
        return "shape %s, expected %s" % (got.shape, want.shape)
    if want.dtype.kind in "biu":
        return None if np.array_equal(want, got) else spot(want, got, args)
    if want.dtype.kind == "c":
        if np.all(ulp == 0):
            parts = [differ(getattr(want, p), "", getattr(got, p), 0, args) for p in ("real", "imag")]
            return parts[0] or parts[1]
        eps = np.finfo(want.dtype).eps
        near = np.abs(got - want) <= ulp * eps * np.abs(want) + np.finfo(want.dtype).tiny * 8
        alike = near | (np.isnan(want) & np.isnan(got)) | ((want == got))
        alike |= ~np.isfinite(want) & (~np.isfinite(got) | (got == 0))  # 1 / (inf + nan i) is either
        return None if alike.all() else spot(np.where(alike, want, want), np.where(alike, want, got), args)
    if ulp == 0:
        a, b = want.copy(), got.copy()
        a[np.isnan(want)] = b[np.isnan(got)] = 0
        return None if a.tobytes() == b.tobytes() else spot(want, got, args)
    d = steps(np.ascontiguousarray(want), np.ascontiguousarray(got))
    return None if d <= ulp else "%s units in the last place: %s" % (d, spot(want, got, args))


def judge(want, got, ulp, narrow=None, args=()):
    """want: an array; got: None (it raised) or (dtype, array)."""
    dtype, bits = got
    expected = narrow if narrow and want.dtype == np.float32 else want.dtype.name
    if dtype != expected:
        return "dtype %s, expected %s" % (dtype, expected)
    if want.shape != bits.shape:
        return "shape %s, expected %s" % (bits.shape, want.shape)
    if expected in NARROW:
        want = encode(expected, want)
    return differ(np.asarray(want), expected, np.asarray(bits), ulp, args)


def elementwise(name, operands, got, ulp, override=None, refuses=False):
    """operands: (dtype, array) pairs, or Python numbers; None where all is well, else a text."""
    dtypes = [d for d, _ in (o for o in operands if isinstance(o, tuple))]
    f = OPERATORS[name]
    together = common(dtypes)
    narrow = together if together in NARROW else None
    args = []
    for o in operands:
        if not isinstance(o, tuple):
            args.append(np.float32(decode(narrow, encode(narrow, o))) if narrow and not isinstance(o, complex) else o)
        elif narrow and name[:7] != "logical":
            args.append(decode(narrow, encode(narrow, plain(*o))))
        elif any(d in NARROW for d in dtypes) and name[:7] != "logical":
            args.append(plain(*o).astype(together))
        else:
            args.append(plain(*o))
    error = None
    numbers = [o for o in operands if not isinstance(o, tuple)]
    dtype = np.dtype(np.float32) if narrow else np.result_type(np.dtype(together), *numbers)
    scope = {"np": np, "f": f, "args": args, "a": args[0], "b": args[-1], "common": dtype, "integer_power": integer_power}
    try:
        want = np.asarray(eval(override, scope) if override else f(*args))
        if want.dtype == np.float64 and narrow and name == "div":
            want = want.astype(np.float32)
        if want.dtype == object:
            raise TypeError("no loop")
    except (TypeError, ValueError, OverflowError, RuntimeError, np.exceptions.DTypePromotionError) as e:
        error = "%s: %s" % (type(e).__name__, e)
    if refuses:
        if error:
            return "listed as a difference, but the reference refuses it too: " + error
        return None if got is None else "taken, though spec/differences.lua says that it is refused"
    if error:
        return None if got is None else "taken, but the reference raises %s" % error
    if got is None:
        return "refused, but the reference gives %s" % want.dtype
    if name in ("minimum", "maximum") and want.dtype.kind == "f":
        return _same_values(want, got, narrow)
    if name == "pow" and want.dtype.kind == "c":  # what the exponent times the logarithm loses, its exponential shows
        wide = [np.asarray(x, np.complex128) for x in args]
        ulp = ulp * (1 + np.nan_to_num(np.abs(wide[1] * np.log(wide[0])), nan=0.0, posinf=0.0))
    return judge(want, got, ulp, narrow, args)


# ---- reductions ----

def _wide(a):
    return a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble) if a.dtype.kind in "fc" else a


def _float_of(a):
    return np.dtype(np.float64) if a.dtype.kind in "biu" else a.dtype


def _sum(a, axis, keep):
    if a.dtype.kind in "biu":
        return np.sum(a, axis=axis, keepdims=keep)
    return np.asarray(np.sum(_wide(a), axis=axis, keepdims=keep)).astype(a.dtype)


def _prod(a, axis, keep):
    if a.dtype.kind in "biu":
        return np.prod(a, axis=axis, keepdims=keep)
    return np.asarray(np.prod(_wide(a), axis=axis, keepdims=keep)).astype(a.dtype)


def _mean(a, axis, keep):
    return np.asarray(np.mean(_wide(a), axis=axis, keepdims=keep)).astype(_float_of(a))


def _var(a, axis, keep):
    real = np.zeros(0, _float_of(a)).real.dtype
    return np.asarray(np.var(_wide(a), axis=axis, keepdims=keep, ddof=1)).astype(real)


def _std(a, axis, keep):
    real = np.zeros(0, _float_of(a)).real.dtype
    return np.asarray(np.std(_wide(a), axis=axis, keepdims=keep, ddof=1)).astype(real)


def _position(f):
    return lambda a, axis, keep: np.asarray(f(a, axis=axis, keepdims=keep)) + 1  # indices count from 1


REDUCTIONS = {
    "sum": _sum, "prod": _prod, "mean": _mean, "var": _var, "std": _std,
    "min": lambda a, axis, keep: np.min(a, axis=axis, keepdims=keep),
    "max": lambda a, axis, keep: np.max(a, axis=axis, keepdims=keep),
    "argmin": _position(np.argmin), "argmax": _position(np.argmax),
    "any": lambda a, axis, keep: np.any(a, axis=axis, keepdims=keep),
    "all": lambda a, axis, keep: np.all(a, axis=axis, keepdims=keep),
}


def _allowed(name, a, axis, keep, want):
    """How far rounding may lead, by the elements: twice what NumPy's own error analysis gives for one after the other."""
    wide = a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble)
    n = max(1, a.size if axis is None else a.shape[axis])
    narrow = a.dtype.kind == "f" and a.itemsize < 4
    eps = np.finfo(np.float32 if narrow else want.dtype).eps
    size = np.abs(want.astype(np.clongdouble))
    if name in ("sum", "mean"):
        total = np.asarray(np.sum(np.abs(wide), axis=axis, keepdims=keep))
        return total * eps * (4 + np.log2(n + 1)) / (n if name == "mean" else 1)
    if name == "prod":
        return size * eps * (8 + n)
    eps = np.finfo(np.float64).eps  # of var and std, which are computed in float64 and rounded
    largest = np.asarray(np.max(np.abs(wide), axis=axis, keepdims=keep, initial=0))
    each = eps * (8 + n) * largest
    return each + size * eps * (8 + n) if name == "std" else each ** 2 + each * np.sqrt(size) + size * eps * (8 + n)


def reduction(name, operand, axis, keep, got, refuses=False):
    dtype, raw = operand
    narrow = dtype if dtype in NARROW else None
    a = plain(dtype, raw)
    error = None
    try:
        want = np.asarray(REDUCTIONS[name](a, axis, keep))
    except (TypeError, ValueError) as e:
        error = str(e)
    if refuses:
        if error and a.size > 0:
            return "listed as a difference, but the reference refuses it too: " + error
        return None if got is None else "taken, though spec/differences.lua says that it is refused"
    if error:
        return None if got is None else "taken, but the reference raises: " + error
    if got is None:
        return "refused, but the reference gives %s" % want.dtype
    if want.dtype.kind in "biu" or name in ("min", "max"):
        return judge(want, got, 1 if a.dtype.kind == "f" and name in ("min", "max") else 0, narrow) \
            if not (name in ("min", "max") and a.dtype.kind == "f") else _same_values(want, got, narrow)
    failed = judge(want, got, 1, narrow)
    if failed is None or failed.startswith(("dtype", "shape")):
        return failed
    value = plain(*got)
    allowed = _allowed(name, a, axis, keep, want)
    if narrow or want.dtype.itemsize < 8:  # the last rounding
        step = {"bfloat16": 2.0 ** -8, "float8_e4m3fn": 2.0 ** -4, "float8_e5m2": 2.0 ** -3}.get(narrow)
        allowed = allowed + np.abs(want.astype(np.float64)) * (step or np.finfo(want.dtype).eps)
    off = np.abs(value.astype(np.clongdouble) - want.astype(np.clongdouble))
    fine = (off <= allowed) | (np.isnan(value) & np.isnan(want)) | (value == want)
    if name == "prod":  # where parts of a product may leave the range, its value depends on their order
        work = np.finfo(np.float32 if narrow or a.dtype.itemsize < 4 else a.dtype)
        reach = np.sum(np.abs(np.log2(np.abs(_wide(a)))), axis=axis, keepdims=keep)
        fine |= reach > -work.minexp
    return None if np.all(fine) else failed


def _same_values(want, got, narrow):
    """0 and -0 are alike: which of them is the smaller, no standard says."""
    if got[0] != (narrow or want.dtype.name):
        return "dtype %s, expected %s" % (got[0], narrow or want.dtype.name)
    value = plain(*got)
    if np.array_equal(value, want, equal_nan=True):
        return None
    return "shape %s, expected %s" % (value.shape, want.shape) if value.shape != want.shape else spot(want, value, ())


# ---- running totals, products ----

def scan(name, operand, axis, got):
    """One after the other: float32 in float64, halves in float32."""
    dtype, raw = operand
    a = plain(dtype, raw)
    work = {"float16": np.float32, "float32": np.float64, "complex64": np.complex128}.get(a.dtype.name, a.dtype)
    if dtype in NARROW:
        work = np.float32
    want = getattr(np, name)(a if a.dtype.kind in "biu" else a.astype(work), axis=axis)
    if a.dtype.kind not in "biu":
        want = want.astype(a.dtype)
    return judge(want, got, 4 if name == "cumprod" and a.dtype.kind == "c" else 0, dtype if dtype in NARROW else None, (a,))


def matmul(x, y, got, refuses=False):
    narrow = x[0] if x[0] in NARROW else None
    a, b = plain(*x), plain(*y)
    try:
        want = np.matmul(a if a.dtype.kind in "biu" else _wide(a), b if a.dtype.kind in "biu" else _wide(b))
    except ValueError as e:
        return None if got is None else "taken, but the reference raises: %s" % e
    if got is None:
        return "refused, but the reference gives %s" % want.dtype
    if got[0] != (narrow or a.dtype.name):
        return "dtype %s, expected %s" % (got[0], narrow or a.dtype.name)
    value = plain(*got)
    if value.shape != want.shape:
        return "shape %s, expected %s" % (value.shape, want.shape)
    if a.dtype.kind in "biu":
        return None if np.array_equal(want, value) else spot(np.asarray(want), value, ())
    bound = np.matmul(np.abs(_wide(a)), np.abs(_wide(b)))
    last = {"bfloat16": 2.0 ** -8, "float8_e4m3fn": 2.0 ** -4, "float8_e5m2": 2.0 ** -3}.get(narrow, 0)
    last = 2.0 ** -11 if a.dtype == np.float16 else last
    eps = np.finfo(np.float32 if a.dtype == np.float16 else a.dtype).eps
    off = np.abs(value - want)
    least = {"float8_e4m3fn": 2.0 ** -10, "float8_e5m2": 2.0 ** -17}.get(narrow, 1e-8 if a.dtype == np.float16 else 0)
    fine = (off <= bound * eps * (4 + a.shape[-1]) + np.abs(want) * last * 1.01 + least) | (~np.isfinite(value) & (
        np.abs(want) > (0.9 * (448 if narrow == "float8_e4m3fn" else 57344 if narrow else np.finfo(a.dtype).max))))
    return None if np.all(fine) else spot(np.asarray(want).astype(value.dtype), value, ())


# ---- functions made of several ----

def _softmax(a, axis):
    e = np.exp(a - np.max(a, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


COMPOSED = {
    "norm": lambda a, axis: np.sqrt(np.sum(np.abs(a) ** 2, axis=axis)),
    "logsumexp": lambda a, axis: np.log(np.sum(np.exp(a - np.max(a)), axis=axis)) + np.max(a),
    "softmax": _softmax,
    "lerp": lambda a, b, w: a + (b - a) * w,
    "outer": np.multiply.outer,
    "dot": np.dot,
    "clamp": np.clip,
}


def composed(name, dtype, operands, extra, got):
    """Within what a step each in the dtype that ours computes in may lose, and one rounding to the result's."""
    wide = [_wide(plain(*x)).astype(np.clongdouble if "complex" in dtype else np.longdouble) for x in operands]
    want = np.asarray(COMPOSED[name](*wide, *extra))
    value = plain(*got)
    if value.shape != want.shape:
        return "shape %s, expected %s" % (value.shape, want.shape)
    whole = dtype == "bool" or np.dtype(dtype if dtype not in NARROW else "f4").kind in "biu"
    result = ("float64" if name != "softmax" or dtype.endswith(("32", "64")) else "float32") if whole else \
        {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype) if name == "norm" else dtype
    if got[0] != result:
        return "dtype %s, expected %s" % (got[0], result)
    last = {"bfloat16": 2.0 ** -8, "float8_e4m3fn": 2.0 ** -4, "float8_e5m2": 2.0 ** -3, "float16": 2.0 ** -11}.get(dtype, 0)
    least = {"float8_e4m3fn": 2.0 ** -10, "float8_e5m2": 2.0 ** -17, "float16": 2.0 ** -25}.get(dtype, 0)
    work = np.finfo("f4" if last or result in ("float32", "complex64") else "f8")
    eps, least = work.eps, least + work.tiny
    n = max([1] + [x.size for x in wide])
    size = 8 * max([1.0] + [np.max(np.abs(x)) for x in wide if x.size])
    allowed = 0 if name == "clamp" else eps * (8 + n) * (size if name in ("lerp", "logsumexp", "dot") else np.abs(want))
    if name == "softmax":
        allowed = allowed + eps * size * np.abs(want)
    off = np.abs(value.astype(want.dtype) - want)
    fine = off <= allowed + np.abs(want) * last * 1.01 + least
    return None if np.all(fine) else spot(want.astype(value.dtype), value, ())


# ---- casts ----

def _to_integer(v, to):
    """Python's integers; what C leaves undefined, by the table in the docs of x:astype."""
    bits, signed = 8 * np.dtype(to).itemsize, np.dtype(to).kind == "i"

    def signed_cast(x, width):
        low, high = -(1 << (width - 1)), 1 << (width - 1)
        if x != x or x in (np.inf, -np.inf) or not low <= int(x) < high:
            return low
        return int(x)

    if bits < 32 or signed:
        n = signed_cast(v, max(bits, 32))
    else:
        half = 1 << (bits - 1)
        n = signed_cast(v - half, bits) + half if v >= half else signed_cast(v, bits)
    n &= (1 << bits) - 1
    return n - (1 << bits) if signed and n >> (bits - 1) else n


def cast(operand, to, got):
    dtype, raw = operand
    a = plain(dtype, raw)
    if to in NARROW:
        want = encode(to, a.real)
    elif to == "bool":
        want = a != 0
    elif np.dtype(to).kind in "iu" and a.dtype.kind in "fc":
        want = np.array([_to_integer(float(v), to) for v in a.real.ravel()], to).reshape(a.shape)
        native = a.real.astype(to)
        low, high = np.iinfo(to).min, np.iinfo(to).max
        inside = (a.real.astype(np.longdouble) >= low) & (a.real.astype(np.longdouble) <= high)
        if not np.array_equal(want[inside], native[inside]):
            return "the table itself is not NumPy's"
    else:
        want = (a if np.dtype(to).kind == "c" else a.real).astype(to)
    if got[0] != to:
        return "dtype " + got[0]
    return differ(np.asarray(want), to, np.asarray(got[1]), 0, (a,))


# ---- copies and views: the same bytes ----

def moved(expression, arrays, got):
    """got: arrays of bits; expression: of a (and b), giving one array or several"""
    want = eval(expression, {"np": np, "a": arrays[0], "b": arrays[-1]})
    want = list(want) if isinstance(want, (list, tuple)) else [np.asarray(want)]
    if len(want) != len(got):
        return "%d results, expected %d" % (len(got), len(want))
    for w, g in zip(want, got):
        if w.shape != g.shape:
            return "shape %s, expected %s" % (g.shape, w.shape)
        if w.dtype != g.dtype or w.tobytes() != g.tobytes():
            return spot(w, g, ()) or "bytes differ: %s, expected %s" % (text(g), text(w))
    return None


def pool(dtype, seed, n, tame):
    """n random elements as bits in the dtype (narrow ones: their bits), extremes among them unless tame."""
    r = np.random.default_rng(seed)
    if dtype == "bool":
        return r.integers(0, 2, n).astype(bool)
    if dtype in NARROW:
        bits, _, nan = NARROW[dtype]
        if tame:
            return encode(dtype, 2 ** r.uniform(-1, 1, n) * r.choice([1, -1], n))
        x = r.integers(0, np.iinfo(bits).max, n, endpoint=True).astype(bits)
        return np.where(np.isnan(decode(dtype, x)), nan, x).astype(bits)  # signalling ones are C's own affair
    d = np.dtype(dtype)
    if d.kind in "iu":
        info = np.iinfo(d)
        wild = r.integers(info.min, info.max, n, dtype=d, endpoint=True)
        small = r.integers(0 if d.kind == "u" else -9, 10, n).astype(d)
        edge = r.choice(np.array([info.min, info.max, 0, 1, info.max - 1, info.max // 2 + 1], d), n)
        return np.where(r.random(n) < 0.5, small, np.where(r.random(n) < 0.3, edge, wild)).astype(d)
    if d.kind == "c":
        if tame:  # of a magnitude that products of thousands keep in range
            return (2 ** r.uniform(-1, 1, n) * np.exp(1j * r.uniform(0, 7, n))).astype(d)
        real = r.uniform(0.25, 3, (n, 2)) * r.choice([1, -1], (n, 2))
        real = np.where(r.random((n, 2)) < 0.1, 0.0, real)
        return (real[:, 0] + 1j * real[:, 1]).astype(d)
    if tame:
        return (2 ** r.uniform(-1, 1, n) * r.choice([1, -1], n)).astype(d)
    f = np.finfo(d)
    edge = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, f.max, f.min, f.tiny, f.smallest_subnormal,
                     127.5, -128.5, 255.9, 256, 2.0 ** 15, -2.0 ** 31, 2.0 ** 31, 2.0 ** 63, -2.0 ** 63, 2.0 ** 64]).astype(d)
    scaled = r.standard_normal(n) * 2.0 ** r.integers(-f.maxexp // 4, f.maxexp // 4, n)
    x = np.where(r.random(n) < 0.6, r.standard_normal(n) * 3, scaled).astype(d)
    return np.where(r.random(n) < 0.2, r.choice(edge, n), x).astype(d)
