#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bridle/error.h"
#include "bridle/random.h"
#include "bridle/run.h"
#include "data/utf8.h"

namespace bridle {
namespace {

// Draws from softmax(logits/temperature) over the top_k likeliest: the largest of logits/temperature plus Gumbel noise.
Token draw(const at::Tensor& all, const SampleOptions& options, int64_t index) {
  if (options.temperature == 0.0) return static_cast<Token>(all.argmax().item<int64_t>());
  at::Tensor logits = all;
  if (options.top_k > 0 && options.top_k < all.numel()) {
    const auto [values, places] = all.topk(options.top_k);
    logits = at::full_like(all, -std::numeric_limits<double>::infinity()).scatter(0, places, values);
  }
  const at::Tensor uniform = random_uniform(
      logits.sizes(),
      {.seed = options.seed, .stream = Stream::sampling, .step = static_cast<uint64_t>(index)}, at::kDouble);
  const at::Tensor noise = at::log(at::log(uniform).neg()).neg();
  return static_cast<Token>(
      logits.to(at::kDouble).div(options.temperature).add(noise).argmax().item<int64_t>());
}

// The longest prefix that ends with a whole UTF-8 character; byte pairs may end in the middle of one.
size_t whole_characters(const std::string& text) {
  const size_t bad = find_invalid_utf8(text);
  return text.size() - bad < 4 ? bad : text.size();
}

// Reads a text that grows, each token once. Where the model's window is full, it begins anew with the last half of it, so that
// at least half a window is always seen.
class Reader {
 public:
  explicit Reader(const Model& model) : model_(model), window_(static_cast<size_t>(model.shape().longest)) {}

  // The logits after the last token, [V].
  at::Tensor read(const std::vector<Token>& tokens) {
    size_t fresh = tokens.size() - read_;
    if (static_cast<size_t>(cache_.length) + fresh > window_) {
      cache_ = {};
      fresh = std::min(tokens.size(), read_ == 0 ? window_ : std::max<size_t>(1, window_ / 2));
    }
    read_ = tokens.size();
    std::vector<int64_t> part(tokens.end() - static_cast<std::ptrdiff_t>(fresh), tokens.end());
    Pass pass{.cache = &cache_};
    const at::Tensor ids = at::from_blob(part.data(), {1, static_cast<int64_t>(fresh)}, at::kLong);
    return model_.forward(ids.to(model_.device()), pass).select(1, -1).view({-1}).cpu();
  }

 private:
  const Model& model_;
  size_t window_;
  size_t read_ = 0;
  KeyValueCache cache_;
};

}  // namespace

std::string sample(const Run& run, const SampleOptions& options,
                   const std::function<void(const std::string&)>& on_text) {
  if (!run.tokenizer)
    throw InputError("sample",
                     fmt::format("{} is no language model: it has no vocabulary", run.folder.string()));
  return sample(*run.model, *run.tokenizer, options, on_text);
}

std::string sample(const Model& model, const Tokenizer& tokenizer, const SampleOptions& options,
                   const std::function<void(const std::string&)>& on_text) {
  if (!(options.temperature >= 0.0) || std::isinf(options.temperature))
    throw InputError("sample", fmt::format("temperature must be 0 or more, got {}", options.temperature));
  if (options.top_k < 0)
    throw InputError("sample", fmt::format("top_k must be 0 or more, got {}", options.top_k));
  if (options.tokens < 0)
    throw InputError("sample", fmt::format("tokens must be 0 or more, got {}", options.tokens));
  std::vector<Token> tokens = tokenizer.encode(options.prompt);
  if (tokens.empty()) throw InputError("sample", "the prompt must have at least one character, got none");
  const at::NoGradGuard no_gradients;
  Reader reader(model);
  std::string all;
  std::string pending;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const at::Tensor logits = reader.read(tokens).narrow(0, 0, tokenizer.size());
    tokens.push_back(draw(logits, options, i));
    pending += tokenizer.decode({&tokens.back(), 1});
    const size_t ready = whole_characters(pending);
    if (on_text && ready > 0) on_text(pending.substr(0, ready));
    all += pending.substr(0, ready);
    pending.erase(0, ready);
  }
  if (on_text && !pending.empty()) on_text(pending);
  return all + pending;
}

}  // namespace bridle
