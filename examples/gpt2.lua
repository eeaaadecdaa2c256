-- A tokenizer trained on the spot and a tiny GPT-2 that learns one sentence, with Hugging Face's libraries, offline.

local moon = require "moontensor"
local py = require "moontensor.python"

local environ = py.import "os".environ
environ[{"HF_HUB_OFFLINE"}] = "1" -- before transformers is imported: nothing is downloaded
environ[{"TOKENIZERS_PARALLELISM"}] = "false"

local torch = require "moontensor.torch"
local tokenizers, transformers = py.import "tokenizers", py.import "transformers"
transformers.utils.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.manual_seed(0)

-- ---- byte pair encoding ----

local TEXTS = {
  "the moon pulls the sea and the sea pulls the moon",
  "the sea is deep and the moon is far",
  "lua is the moon",
}
local tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(py.kw{unk_token = "[UNK]"}))
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(py.kw{add_prefix_space = false})
tokenizer.decoder = tokenizers.decoders.ByteLevel()
local trainer = tokenizers.trainers.BpeTrainer(py.kw{
  vocab_size = 64, show_progress = false, special_tokens = {"[UNK]", "[END]"},
})
tokenizer:train_from_iterator(TEXTS, trainer)
local vocabulary, END = tokenizer:get_vocab_size(), tokenizer:token_to_id "[END]"

local sentence = TEXTS[1]
local encoding = tokenizer:encode(sentence)
print(("%d tokens in the vocabulary; %q is %d of them: %s"):format(vocabulary, sentence, #encoding.ids, encoding.tokens))
assert(vocabulary <= 64 and END == 1)
assert(#encoding.ids < #sentence / 2, "pairs of bytes were merged")
assert(tokenizer:decode(encoding.ids) == sentence, "decoding gives back the text")

-- ---- a model of 2 layers with random weights ----

local config = transformers.GPT2Config(py.kw{
  vocab_size = vocabulary, n_positions = 32, n_embd = 32, n_layer = 2, n_head = 2, bos_token_id = END, eos_token_id = END,
})
local model = transformers.GPT2LMHeadModel(config)
local tokens = moon.from(encoding.ids, {dtype = "int64"}):view(1, #encoding.ids) -- native; torch reads it in place
local inputs = tokens:to_torch()

-- two tokens in, three more out: shape (1, 5)
local function continue(count)
  local start = inputs[{{}, {0, 2}}]
  return model:generate(start, py.kw{
    attention_mask = torch.ones_like(start), max_new_tokens = count, do_sample = false, pad_token_id = END,
  })
end
model:eval()
local generated = continue(3)
assert(generated.shape == py.tuple{1, 5}, tostring(generated.shape))
assert(torch.equal(generated[{{}, {0, 2}}], inputs[{{}, {0, 2}}]), "the answer starts with the question")

-- ---- learning the sentence ----

local function loss_of() return model(py.kw{input_ids = inputs, labels = inputs}).loss end
local first = torch.no_grad(function() return loss_of():item() end)
-- a model that knows nothing is as good as a die with one face for each token
assert(math.abs(first - math.log(vocabulary)) < 0.5, "a random model guesses")

model:train()
local optimizer = torch.optim.AdamW(model:parameters(), py.kw{lr = 1e-2})
for _ = 1, 60 do
  optimizer:zero_grad()
  loss_of():backward()
  optimizer:step()
end
model:eval()
local last = torch.no_grad(function() return loss_of():item() end)
print(("loss: %.3f at first, %.4f after 60 steps"):format(first, last))
assert(last < 0.1)

local text = tokenizer:decode(continue(#encoding.ids - 2)[0]:tolist())
print(("told %q, it says %q"):format(tokenizer:decode(inputs[{0, {0, 2}}]:tolist()), text))
assert(text == sentence, "it knows its sentence by heart")
