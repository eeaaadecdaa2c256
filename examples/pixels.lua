-- Pictures through Pillow: an image comes in as a tensor, a filter runs in torch over our memory, and Pillow writes what came out.
local moon = require "moontensor"
local py = require "moontensor.python"
local torch = require "moontensor.torch"
local Image = py.import "PIL.Image"

-- a picture to begin with: a bright disc on a dark ground
local SIDE = 64
local picture = moon.zeros(SIDE, SIDE, 3, "uint8")
for i = 1, SIDE do
  for j = 1, SIDE do
    local inside = (i - 32) ^ 2 + (j - 32) ^ 2 < 20 ^ 2
    picture[{i, j}] = moon.tensor(inside and {250, 200, 40} or {10, 20, 60}, "uint8")
  end
end
local image = Image.fromarray(picture:to_numpy())

-- Pillow keeps its pixels to itself: they can be copied out, never shared
local ok, e = pcall(moon.from, image)
assert(not ok and tostring(e):find "use {copy = true}", e)
local pixels = moon.from(image, {copy = true})
assert(moon.equal(pixels, picture) and not moon.shares(pixels, picture))

-- grey, by the usual weights, then Sobel's edges; torch works on the tensor's own memory
local grey = pixels:astype("float32"):matmul(moon.tensor({0.299, 0.587, 0.114}, "float32"))
local sobel = moon.tensor({{{{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}}}, {{{-1, -2, -1}, {0, 0, 0}, {1, 2, 1}}}}, "float32")
local edges = torch.nn.functional.conv2d(grey:view(1, 1, SIDE, SIDE):to_torch(), sobel:to_torch(), py.kw {padding = 1})
local strength = moon.from(edges)[1]:norm(1) -- over the two directions

-- the ring of the disc is bright, its middle and the corners are dark
assert(strength(32, 32) < 1e-3 and strength(5, 5) < 1e-3, "flat places have no edges")
assert(strength(12, 32) > 300 and strength(32, 52) > 300, "the rim is an edge")

local out = (strength / strength:max():item() * 255):round():astype "uint8"
py.import "os".makedirs("out", py.kw {exist_ok = true})
Image.fromarray(out:to_numpy()):save "out/edges.png"
local again = moon.from(Image.open "out/edges.png", {copy = true})
assert(moon.equal(again, out), "a PNG keeps every pixel")

-- the other way round Pillow shares: a grey image over our bytes sees what we write later
local window = Image.frombuffer("L", py.tuple {SIDE, SIDE}, out:memoryview(), "raw", "L", 0, 1)
assert(window.readonly == 1)
out[1][2] = 77
assert(window:getpixel(py.tuple {1, 0}) == 77)
print(("edges of %d x %d pixels: out/edges.png"):format(SIDE, SIDE))
