-- Train a classifier of handwritten digits with PyTorch, from Lua.
--
--   lua5.4 examples/digits.lua            three seeds, 30 epochs each: a mean accuracy of at least 0.95
--   lua5.4 examples/digits.lua --quick    one seed, 5 epochs: at least 0.90
--
-- The data are scikit-learn's 1,797 images of 8 x 8 pixels. Native tensors own the images, labels and losses; torch
-- reads them where they are. Writes out/digits.png and out/digits.pt.

local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"

local QUICK = arg[1] == "--quick"
local EPOCHS = QUICK and 5 or 30
local SEEDS = QUICK and {1} or {1, 2, 3}
local REQUIRED = QUICK and 0.90 or 0.95
local SPLIT_SEED, TRAINED_ON = 0, 0.8
local BATCH, LEARNING_RATE = 32, 3e-3

local nn, optim = torch.nn, torch.optim
local DataLoader, TensorDataset = torch.utils.data.DataLoader, torch.utils.data.TensorDataset
local tqdm = py.import "tqdm".tqdm

---Images as float32 in 0..1 and labels as int64, native, shuffled once and cut in two.
local function load_data()
  local bunch = py.import "sklearn.datasets".load_digits()
  local pixels = moon.from(bunch.data):astype("float32"):div(16)
  local targets = moon.from(bunch.target):astype("int64")
  local count = #targets
  local generator = torch.Generator():manual_seed(SPLIT_SEED)
  local order = moon.from(torch.randperm(count, py.kw{generator = generator}))
  local images, labels = moon.empty(count, 64), moon.empty(count, "int64")
  for i = 1, count do
    local from = order[i] + 1 -- a value that torch made: it counts from 0
    images[i] = pixels[from]
    labels[i] = targets[from]
  end
  local cut = math.floor(count * TRAINED_ON)
  return {
    train = {images = images[{{1, cut}}], labels = labels[{{1, cut}}]},
    test = {images = images[{{cut + 1, count}}], labels = labels[{{cut + 1, count}}]},
  }
end

local function new_model()
  return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
end

---Train one model. losses, a native tensor with a place for each epoch, is filled on the way.
local function train(data, seed, losses)
  torch.manual_seed(seed)
  local model, criterion = new_model(), nn.CrossEntropyLoss()
  -- the loader's batches come from tensors that share the native memory
  local dataset = TensorDataset(data.images:to_torch(), data.labels:to_torch())
  local loader = DataLoader(dataset, py.kw{batch_size = BATCH, shuffle = true})
  local optimizer = optim.AdamW(model:parameters(), py.kw{lr = LEARNING_RATE})
  local schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, py.kw{T_max = EPOCHS})
  local bar = tqdm(py.kw{total = EPOCHS, desc = "seed " .. seed, unit = "epoch"})
  for epoch = 1, EPOCHS do
    local total = 0.0
    for images, labels in py.each(loader) do
      optimizer:zero_grad()
      local loss = criterion(model(images), labels)
      loss:backward()
      optimizer:step()
      total = total + loss:item() * #labels
    end
    schedule:step()
    losses[epoch] = total / #data.labels
    bar:set_postfix(py.kw{loss = ("%.4f"):format(losses[epoch])})
    bar:update(1)
  end
  bar:close()
  return model
end

---Predictions for native images as a native int64 tensor, batch by batch.
local function predict(model, images)
  local count = #images
  local out = moon.empty(count, "int64")
  model:eval()
  local _ <close> = py.enter(torch.no_grad())
  for first = 1, count, 100 do
    local last = math.min(first + 99, count)
    local scores = model(images[{{first, last}}]:to_torch())
    out[{{first, last}}] = moon.from(scores:argmax(1))
  end
  return out
end

---counts[t + 1][p + 1]: how often digit t was read as p. Counted by torch, read back without a copy.
local function confusion(labels, predicted)
  local cells = labels:to_torch() * 10 + predicted:to_torch()
  return moon.from(torch.bincount(cells, py.kw{minlength = 100}):reshape(10, 10))
end

local function accuracy(counts)
  local right, all = 0, 0
  for i = 1, 10 do
    for j = 1, 10 do
      all = all + counts(i, j)
      if i == j then right = right + counts(i, j) end
    end
  end
  return right / all
end

---Save the model, load it into a new one, and see that nothing changed.
local function check_checkpoint(model, images, predicted, path)
  torch.save(model:state_dict(), path)
  local again = new_model()
  again:load_state_dict(torch.load(path))
  local restored = again:state_dict()
  local parts = 0
  for name, weights in pairs(model:state_dict()) do
    assert(moon.equal(moon.from(weights), moon.from(restored[{name}])), name .. " changed on its way through the file")
    parts = parts + 1
  end
  assert(parts == 4, "a state of two layers has two weights and two biases")
  assert(moon.equal(predict(again, images), predicted), "the loaded model predicts otherwise")
end

---The loss of every seed, and the first misread digits, in one picture.
local function draw(curves, test, predicted, path)
  py.import "matplotlib".use("Agg")
  local plt = py.import "matplotlib.pyplot"
  local figure = plt.figure(py.kw{figsize = py.tuple{10, 4}, layout = "constrained"})
  local left, right = py.unpack(figure:subfigures(1, 2))
  local axes = left:subplots()
  for i, seed in ipairs(SEEDS) do
    axes:plot(curves[i]:to_numpy(), py.kw{label = "seed " .. seed})
  end
  axes:set_xlabel("epoch")
  axes:set_ylabel("training loss")
  axes:set_yscale("log")
  axes:legend()

  local grid = right:subplots(2, 4)
  local shown = 0
  for i = 1, #predicted do
    if predicted[i] ~= test.labels[i] and shown < 8 then
      local cell = grid[{shown // 4, shown % 4}]
      cell:imshow(test.images[i]:view(8, 8):to_numpy(), py.kw{cmap = "gray_r"})
      cell:set_title(("%d read as %d"):format(test.labels[i], predicted[i]), py.kw{fontsize = 9})
      shown = shown + 1
    end
  end
  for cell in py.iter(grid.flat) do cell:set_axis_off() end
  figure:savefig(path, py.kw{dpi = 100})
  plt.close(figure)
end

local function png_size(path)
  local file = assert(io.open(path, "rb"))
  local header = file:read(24)
  local size = file:seek "end"
  file:close()
  assert(header:sub(1, 8) == "\137PNG\r\n\26\n", path .. " is no PNG")
  local width, height = string.unpack(">I4I4", header, 17)
  return width, height, size
end

torch.set_num_threads(1) -- batches this small gain nothing from a second one
local data = load_data()
print(("%d images to train on, %d to test on"):format(#data.train.labels, #data.test.labels))

local curves = moon.zeros(#SEEDS, EPOCHS, "float64")
local counts = moon.zeros(10, 10, "int64")
local sum, model, predicted = 0.0, nil, nil
for i, seed in ipairs(SEEDS) do
  model = train(data.train, seed, curves[i])
  predicted = predict(model, data.test.images)
  local one = confusion(data.test.labels, predicted)
  counts:add_(one)
  sum = sum + accuracy(one)
  print(("seed %d: accuracy %.4f"):format(seed, accuracy(one)))
end

local folder = py.import "os.path".join("out", "") -- beside whoever runs this
py.import "os".makedirs(folder, py.kw{exist_ok = true})
check_checkpoint(model, data.test.images, predicted, folder .. "digits.pt")
draw(curves, data.test, predicted, folder .. "digits.png")
local width, height = png_size(folder .. "digits.png")
assert(width == 1000 and height == 400, "the picture has another size than asked for")

print("rows: digits; columns: how often each was read as 0, 1, … 9, all seeds together")
print(counts)
local mean = sum / #SEEDS
print(("mean accuracy of %d seed%s: %.4f"):format(#SEEDS, #SEEDS == 1 and "" or "s", mean))
print("picture: " .. folder .. "digits.png")
assert(mean >= REQUIRED, ("an accuracy of %.4f is below %.2f"):format(mean, REQUIRED))
