-- scikit-learn and SciPy on arrays that Lua owns: nothing is copied on the way in, and metrics come back as numbers.

local moon = require "moontensor"
local py = require "moontensor.python"

local datasets, linear = py.import "sklearn.datasets", py.import "sklearn.linear_model"
local metrics, selection = py.import "sklearn.metrics", py.import "sklearn.model_selection"
local sparse, stats = py.import "scipy.sparse", py.import "scipy.stats"

-- the first 1,000 digits to learn from, the other 797 to be asked about: slices of native tensors
local bunch = datasets.load_digits()
local images = moon.from(bunch.data):div(16) -- 1797 x 64, float64, from 0 to 1, in our own memory
local labels = moon.from(bunch.target):astype "int64"
local COUNT <const>, CUT <const> = #labels, 1000
local train = {images = images[{{1, CUT}}], labels = labels[{{1, CUT}}]}
local test = {images = images[{{CUT + 1, COUNT}}], labels = labels[{{CUT + 1, COUNT}}]}

-- what scikit-learn gets is our memory
local features = train.images:to_numpy()
assert(features.ctypes.data == images:data_ptr() and moon.shares(images, features))
assert(moon.shares(labels, train.labels:to_numpy()))

-- a native tensor is an argument as it is: the bridge passes the same shared array
local model = linear.LogisticRegression(py.kw{max_iter = 1000})
model:fit(train.images, train.labels)
local predicted = moon.from(model:predict(test.images))
local accuracy = metrics.accuracy_score(test.labels, predicted)
print(("accuracy of LogisticRegression on %d digits: %.4f"):format(#predicted, accuracy))
assert(math.type(accuracy) == "float", "a metric is a Lua number")
assert(accuracy == predicted:eq(test.labels):sum():item() / #predicted)
assert(accuracy > 0.92 and accuracy < 0.945, "another accuracy than scikit-learn has from Python")

-- a matrix comes back as an array, and is read where it lies; digit d is row d + 1
local counts = moon.from(metrics.confusion_matrix(test.labels, predicted))
print(counts)
local right = 0
for i = 1, 10 do right = right + counts(i, i) end
assert(counts:sum():item() == #predicted and right / #predicted == accuracy)

local scores = moon.from(selection.cross_val_score(linear.RidgeClassifier(), train.images, train.labels, py.kw{cv = 3}))
print(("cross validation of RidgeClassifier: %.3f, %.3f, %.3f"):format(scores[1], scores[2], scores[3]))
assert(#scores == 3 and scores:min():item() > 0.8)

-- SciPy: a sparse matrix of the same pixels, and how often a pixel is ink at all
local matrix = sparse.csr_matrix(images)
local inked = images:gt(0):sum():item()
print(("%d of %d pixels are inked"):format(matrix.nnz, images:numel()))
assert(matrix.nnz == inked)
-- a row sum, twice: SciPy's sparse product and our own
local sums = moon.from(matrix:dot(moon.ones(64, "float64")))
assert(moon.allclose(sums, images:sum(2)))

-- SciPy's correlation of ink with the digit's number, as Lua numbers
local rho, p = py.unpack(stats.spearmanr(sums, labels))
print(("rank correlation of ink and digit: %.4f, p = %.2g"):format(rho, p))
assert(math.type(rho) == "float" and math.abs(rho) < 0.2)

-- what scikit-learn writes, Lua sees: the model's weights are a view, no copy
local weights = moon.from(model.coef_)
assert(moon.shares(weights, model.coef_) and weights.shape[1] == 10 and weights.shape[2] == 64)
