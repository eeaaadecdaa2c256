-- Draw native data with matplotlib, into out/plot.png.

local moon = require "moontensor"
local py = require "moontensor.python"

py.import "matplotlib".use("Agg")
local plt = py.import "matplotlib.pyplot"

local COUNT = 400
local x, wave = moon.empty(COUNT, "float64"), moon.empty(COUNT, "float64")
for i = 1, COUNT do
  x[i] = (i - 1) / COUNT * 4 * math.pi
  wave[i] = math.exp(-x[i] / 8) * math.sin(x[i])
end
local field = moon.empty(64, 64)
for i = 1, 64 do
  for j = 1, 64 do field[{i, j}] = math.sin(i / 8) * math.cos(j / 8) end
end

local figure, axes = py.unpack(plt.subplots(1, 2, py.kw{figsize = py.tuple{8, 4}}))
-- matplotlib reads the native memory through NumPy arrays that own nothing
local line = axes[0]:plot(x:to_numpy(), wave:to_numpy(), py.kw{color = "tab:blue"})[0]
axes[0]:set_title("a damped wave")
local image = axes[1]:imshow(field:to_numpy(), py.kw{cmap = "viridis"})
figure:colorbar(image, py.kw{ax = axes[1]})
py.import "os".makedirs("out", py.kw{exist_ok = true})
figure:savefig("out/plot.png", py.kw{dpi = 100})
plt.close(figure)

assert(moon.equal(moon.from(line:get_ydata()), wave))
-- the file holds a picture: 800 x 400 RGBA with more than one colour
local pixels = plt.imread("out/plot.png")
local shape = pixels.shape
assert(shape[0] == 400 and shape[1] == 800 and shape[2] == 4)
assert(pixels:std() > 0.05)
print "picture: out/plot.png"
