-- Where NumPy and torch differ from each other or from us, and what we chose. spec/differential_spec.lua applies each row, and
-- fails where one is never met.
--
--   operators   names of ops.def
--   kinds       of the operands' common dtype, as ops.h has them: B bool, I signed, U unsigned, F float, C complex
--   refuses     we raise where the reference has a result
--   reference   what to expect instead: a Python expression of f (NumPy's function), args, a, b (first, last), common
--   why         the reason

local floats = {"sqrt", "rsqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
  "tanh", "expm1", "log1p", "erf", "angle", "atan2"}

return {
  {operators = floats, kinds = "BIU",
    reference = "f(*[np.asarray(x).astype('f4' if common.itemsize < 4 else 'f8') for x in args])",
    why = "functions of bools and integers of 8 or 16 bits give float32: NumPy's float16 loses digits, torch's float32 for all"
      .. " integers loses more"},
  {operators = {"expm1", "log1p"}, kinds = "C", refuses = true, why = "torch refuses them on the CPU in part; log and exp do"},
  {operators = {"lt", "le", "gt", "ge", "minimum", "maximum", "min", "max", "argmin", "argmax"}, kinds = "C", refuses = true,
    why = "complex numbers have no order; NumPy compares real parts first, torch refuses"},
  {operators = {"sign", "round"}, kinds = "C", refuses = true,
    why = "NumPy 2 gives z / |z| for sign and rounds both parts; torch has sgn for the first and refuses the second"},
  {operators = {"floor_divide", "remainder", "pow", "floor", "ceil", "trunc", "round"}, kinds = "B", refuses = true,
    why = "bools are no numbers: NumPy computes some of these in int8 or float16; an astype says which is meant"},
  {operators = {"sign"}, kinds = "F", reference = "np.where(np.isnan(a), np.zeros_like(a), f(a))",
    why = "the sign of NaN is 0, as in torch; NumPy gives NaN"},
  {operators = {"pow"}, kinds = "IU", reference = "integer_power(a, b, common)",
    why = "a negative power of an integer is 0, or 1 and -1 for those, as in torch; NumPy raises"},
  {operators = {"remainder"}, kinds = "F",
    reference = "(lambda r: np.where(r == 0, np.copysign(r, a), r))(f(*args))",
    why = "a remainder of 0 has the sign of the dividend, as in torch and in Lua; NumPy gives it the divisor's"},
  {operators = {"angle"}, kinds = "F",
    reference = "np.where(np.isnan(a), a, np.where(a < 0, np.asarray(np.pi, a.dtype), np.zeros_like(a)))",
    why = "the angle of -0.0 is 0, as in torch; NumPy gives pi"},
  {operators = {"conj"}, kinds = "B", reference = "a", why = "a bool stays a bool, as in torch; NumPy gives int8"},
}
