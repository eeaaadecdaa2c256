-- Tables of columns: pandas and pyarrow give tensors where they lie, a model predicts, and the predictions are a column again.
local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"
local pd, pa, np = py.import "pandas", py.import "pyarrow", py.import "numpy"

-- y = 3 a - 2 b + 1, as a frame
moon.manual_seed(7)
local a, b = moon.randn(200, "float64"), moon.randn(200, "float64")
local y = a * 3 - b * 2 + 1
local frame = pd.DataFrame(py.dict {a = a, b = b, y = y})

-- a column of numbers is shared, read-only as pandas wants it; mixed columns together can only be copied
local column = moon.from(frame[{"a"}])
assert(column.readonly and moon.equal(column, a))
local inputs = moon.from(frame[{py.list {"a", "b"}}], {copy = true})
assert(inputs.shape[1] == 200 and inputs.shape[2] == 2)

-- least squares in torch, over the tensor's memory
local design = moon.cat({inputs, moon.ones(200, 1, "float64")}, 2)
local solution = torch.linalg.lstsq(design:to_torch(), moon.from(frame[{"y"}], {copy = true}):view(-1, 1):to_torch()).solution
local weights = moon.from(solution):flatten()
assert(moon.allclose(weights, moon.tensor({3, -2, 1}, "float64"), {atol = 1e-9}))

-- predictions go back as a column
py.setitem(frame, "predicted", design:matmul(weights):to_numpy())
local off = frame[{"predicted"}] - frame[{"y"}]
assert(off:abs():max() < 1e-9)

-- pyarrow shares numbers in one piece without nulls
local prices = pa.array(py.list {1.5, 2.5, 4})
local shared = moon.from(prices)
assert(shared.readonly and shared:sum():item() == 8)
local function refusal(object)
  local ok, e = pcall(moon.from, object)
  assert(not ok)
  return (tostring(e):match "[^\n]*")
end
assert(refusal(pa.array(py.list {1.5, py.none})):find "zero_copy_only was True")
assert(refusal(pa.array(py.list {true, false})):find "Zero copy conversions not possible with boolean types")
assert(refusal(pa.chunked_array(py.list {py.list {1}, py.list {2}})):find "can only be copied")
local holes = moon.from(pa.array(py.list {1.5, py.none}), {copy = true})
assert(holes[1] == 1.5 and holes:isnan()[2], "a null becomes NaN")
assert(moon.equal(moon.from(pa.chunked_array(py.list {py.list {1}, py.list {2}}), {copy = true}), moon.tensor {1, 2}))

-- and Arrow takes our bytes where they lie
local buffer = pa.py_buffer(y:memoryview())
assert(buffer.address == y:data_ptr() and buffer.size == y:nbytes())
print(("weights %s; %d rows predicted"):format(np.round(weights:to_numpy(), 3), #frame))
