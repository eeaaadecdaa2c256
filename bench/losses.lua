-- bench/losses.py, line for line, with the data in native memory: its output is the same to the last bit.
local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"
local nn = torch.nn

local ROWS = math.tointeger(arg[1] or 60000)
local FEATURES, CLASSES, BATCH, STEPS = 784, 10, 256, 200

torch.set_num_threads(1)
torch.manual_seed(1)
local x, y = moon.empty(ROWS, FEATURES), moon.empty(ROWS, "int64")
torch.randn(ROWS, FEATURES, py.kw{out = x})
local teacher = torch.randn(FEATURES, CLASSES)
y:copy_(torch.matmul(x, teacher):argmax(1))

local model = nn.Sequential(nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, CLASSES))
local criterion = nn.CrossEntropyLoss()
local optimizer = torch.optim.AdamW(model:parameters(), py.kw{lr = 1e-3})
local dataset = torch.utils.data.TensorDataset(x, y)
local loader = torch.utils.data.DataLoader(dataset, py.kw{batch_size = BATCH, shuffle = true})

local step = 0
while step < STEPS do
  for xb, yb in py.each(loader) do
    optimizer:zero_grad()
    local loss = criterion(model(xb), yb)
    loss:backward()
    optimizer:step()
    print(("%.13a"):format(loss:item())) -- as Python's float.hex
    step = step + 1
    if step == STEPS then break end
  end
end
