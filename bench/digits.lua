-- The training loop of bench/digits.py, line for line, in Lua.
local py = require "moontensor.python"
local torch = require "moontensor.torch"

local BATCH, LR = 32, 3e-3
local Run = {}
Run.__index = Run

function Run.new(x, y, epochs, seed)
  torch.manual_seed(seed)
  local nn = torch.nn
  local self = setmetatable({}, Run)
  self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
  local dataset = torch.utils.data.TensorDataset(x, y)
  self.loader = torch.utils.data.DataLoader(dataset, py.kw{batch_size = BATCH, shuffle = true})
  self.optimizer = torch.optim.AdamW(self.model:parameters(), py.kw{lr = LR})
  self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, py.kw{T_max = epochs})
  self.criterion = nn.CrossEntropyLoss()
  return self
end

function Run:epoch()
  local model, optimizer, criterion = self.model, self.optimizer, self.criterion
  local total = 0.0
  for xb, yb in py.each(self.loader) do
    optimizer:zero_grad()
    local loss = criterion(model(xb), yb)
    loss:backward()
    optimizer:step()
    total = total + loss:item() * #yb
  end
  self.schedule:step()
  return total
end

return Run
