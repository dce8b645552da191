// Models: every module has `forward` and `bound` side by side. The bound is the same walk as the forward pass over norms
// of the weights, so a changed model cannot keep an old bound: docs/theory/modules.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bridle/architecture.h"
#include "bridle/bound.h"
#include "bridle/param.h"
#include "bridle/random.h"

namespace bridle {

// Fills in what is 0 and refuses what cannot be. Throws InputError.
ModelOptions resolved(ModelOptions options);

// ---- A forward pass

// The largest RMS over tokens and the largest entry, by layer.
struct ActivationStatistics {
  struct Layer {
    double largest_rms = 0.0;
    double largest_entry = 0.0;
  };
  std::map<std::string, Layer> layers;
  void record(const std::string& name, const at::Tensor& x);
  void include(const std::string& name, const Layer& seen);
};

// Where the time of forward and backward passes goes, in seconds; added to.
struct PhaseTimes {
  double forward = 0.0;  // with the loss
  double backward = 0.0;
};

// Keys and values of the tokens that a transformer has read, by layer: the next pass goes on after them.
struct KeyValueCache {
  struct Layer {
    at::Tensor keys = {}, values = {};  // [B, G, length, h], rotated by their positions; G heads
    at::Tensor content_keys = {};       // of quadrature mixing, [B, K, length, content_size]
  };
  std::vector<Layer> layers = {};
  int64_t length = 0;
  at::Tensor begins = {};  // [B, 1]: of the last token's document, where there are documents
};

struct Pass {
  at::ScalarType dtype = at::kFloat;  // of activations and products; weights keep theirs
  bool training = false;              // dropout
  double window_share = 1.0;          // how far windows have grown, where they do: nn/positions.h
  double margin = 0.0;                // taken off the right logit before the loss
  RandomKey dropout = {};             // changes from step to step
  ActivationStatistics* statistics = nullptr;
  uint64_t dropout_calls = 0;
  PhaseTimes* times = nullptr;     // null: nothing is measured
  KeyValueCache* cache = nullptr;  // null: the inputs are whole sequences
  at::Tensor begins = {};  // [B, T]: where each token's document begins; `embed` finds it in the tokens
};

// Mean cross-entropy over the targets, its gradients in the order of the model's params, and the share of targets that
// have the largest logit.
struct LossAndGradients {
  double loss = 0.0;
  double accuracy = 0.0;
  std::vector<at::Tensor> gradients = {};
};

// ---- A walk of the rounding: nn/enclosure.h
struct LogitEnclosure;
class ErrorWalk;

// ---- A walk of the bound

// Where the norms of weights come from: measured and proved, the caps in force, or a certificate. All are ordinary
// spectral norms and never too small. Throws PromiseError where one cannot be established.
class NormSource {
 public:
  virtual ~NormSource() = default;
  virtual UpperBound matrix(const Param& weight) = 0;
  virtual std::vector<UpperBound> heads(const Param& weight, int64_t heads) = 0;  // of equal row blocks
  // σ(D·W), D scaling the row blocks.
  virtual UpperBound scaled_heads(const Param& weight, std::span<const UpperBound> scales) = 0;
  // σ(W·S), S scaling equal column blocks; the scales are positive and exact in float32.
  virtual UpperBound scaled_columns(const Param& weight, std::span<const double> scales) = 0;
  // S for scaled_columns of an attention's output: the values' heads are divided by it. Every positive S gives a valid
  // bound (docs/theory/modules.md, statement 5), so this is a choice, not a fact; `price` estimates by what the bound is
  // multiplied then.
  using Price = std::function<double(const std::vector<double>& scales)>;
  virtual std::vector<double> head_scales(const Param& value, const Param& output, int64_t heads,
                                          const Price& price) = 0;
  virtual UpperBound largest_row_rms(const Param& table) = 0;
  virtual UpperBound largest_entry(const Param& vector) = 0;
  virtual UpperBound euclidean(const Param& vector) = 0;
  virtual std::vector<UpperBound> euclidean_heads(const Param& vector, int64_t heads) = 0;
  // The least and the largest entry of a residual's weight, exactly; none where all that is known is that they lie in [0, 1].
  struct Entries {
    double least = 0.0, largest = 0.0;
  };
  virtual std::optional<Entries> entries(const Param& weight);
};

std::unique_ptr<NormSource> measured_norms();  // verified, from the weights as they are

struct LayerBound {
  std::string name;
  Bound bound;
  int64_t width = 0;  // entries of a token or vector there
};

// The neighbourhood of given inputs: what their activations were, by layer, and how far an input may move from them.
struct Neighbourhood {
  std::map<std::string, UpperBound> activations;
  UpperBound radius;
};

struct Walk {
  explicit Walk(NormSource& source, const Neighbourhood* near = nullptr)
      : norms(source), neighbourhood(near) {}
  NormSource& norms;
  const Neighbourhood* neighbourhood;  // null: the whole domain
  std::vector<LayerBound> layers = {};
  UpperBound trunk = {};          // stretch up to the head's input
  UpperBound largest_logit = {};  // stretch from the input's RMS norm to any one logit

  // After a layer; near given inputs the activation is also at most theirs and what the radius has become.
  Bound record(const std::string& name, Bound bound, int64_t width);
};

// ---- Models

// What a model takes and what it gives.
struct ModelShape {
  InputKind input = InputKind::tokens;
  int64_t size = 0;     // entries of an embedded token, or of a vector
  int64_t longest = 1;  // tokens in a sequence; 1 for vectors
  int64_t outputs = 0;  // logits: one per real token, or per class
};

// FLOP of matrix products, for one token or vector.
struct ModelFlop {
  double forward = 0.0;
  double backward = 0.0;
};

struct BatchShape {
  int64_t size = 1;
  int64_t length = 1;  // of a sequence; 1 for vectors
};

// Bytes that a training pass needs besides weights and gradients; an estimate.
struct PassMemory {
  double packed = 0.0;  // weights in the layout of the fused pass, and sums of their gradients
  double activations = 0.0;
};

// A model of one's own derives from Model and needs embed, forward_from, bound, input_bound, shape and its params_; that is
// enough to train, evaluate and certify it in a program (bridle/train.h). What has a default below throws InputError, or says
// that there is none.
class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Tokens [B, T] → logits [B, T, V]; pixels [B, D] → logits [B, C]. In the pass's dtype.
  at::Tensor forward(const at::Tensor& inputs, Pass& pass) const {
    return forward_from(embed(inputs, pass), pass);
  }

  // The two halves: the x₀ that bounds speak of ([B, T, d], without positions; the pixels themselves), and all the rest.
  virtual at::Tensor embed(const at::Tensor& inputs, Pass& pass) const = 0;
  virtual at::Tensor forward_from(const at::Tensor& embedded, Pass& pass) const = 0;

  // Why passes like this one are not fused, in words for the user; empty where they are, on a CPU.
  virtual std::string why_not_fused(const Pass& /*pass*/) const { return "this model has no fused pass"; }

  // Forward, loss and (if wanted) backward in one fused pass, where there is one for this model, this device and such a pass.
  // Its twin is `forward` with LibTorch's gradients.
  virtual std::optional<LossAndGradients> fused_loss(const at::Tensor& /*inputs*/,
                                                     const at::Tensor& /*targets*/, Pass& /*pass*/,
                                                     bool /*gradients*/) const {
    return std::nullopt;
  }

  // The forward pass in float64 with a bound of its own rounding, and of that of other programs: nn/enclosure.h.
  virtual LogitEnclosure enclose(const at::Tensor& embedded, ErrorWalk& walk) const;

  // From inputs whose norm is at most `domain` (embedded sequences, or pixels) to the logits, RMS to RMS.
  virtual Bound bound(const UpperBound& domain, Walk& walk) const = 0;

  // The smallest domain that holds every input that the model can be given: the largest row of the embedding, or 1 for
  // pixels between 0 and 1.
  virtual UpperBound input_bound(NormSource& norms) const = 0;

  // The rows that make the logits, one a class or real token, without the final scale; and that scale.
  virtual at::Tensor logit_rows() const;
  virtual double logit_scale() const;

  // What the model is, resolved: make_model_from with these options and its weights computes the same function. None for a model
  // that no options describe: it has no config.json, and so no certificate.json, which others could check.
  virtual std::optional<ModelOptions> options() const { return std::nullopt; }
  virtual ModelShape shape() const = 0;
  virtual ModelFlop flop(int64_t length) const;
  virtual PassMemory memory(const BatchShape& batch, const Pass& pass, int threads) const;

  // What a certificate may speak of: the params, and a head that is the embedding under a name of its own.
  virtual std::vector<Param> certified_weights() const { return params_; }

  // Named as in Hugging Face's layout, in the order in which the signal meets them. Every name is there once, and every tensor
  // that is trained requires gradients.
  const std::vector<Param>& params() const { return params_; }

  at::Device device() const { return params_.front().tensor.device(); }  // of all params, and of inputs

 protected:
  Model() = default;
  bool can_fuse(const Pass& pass) const;  // and the weights are float32 on a CPU
  std::vector<Param> params_;
};

// With initial weights that depend on the seed alone, or zero without one; float32 on the CPU unless `weights` names another
// dtype or device. They are drawn on the CPU, so that every device gets the same ones.
std::unique_ptr<Model> make_model(const ModelOptions& options, std::optional<uint64_t> seed,
                                  const at::TensorOptions& weights = {});

// With weights from elsewhere: `source` is asked for each in turn, by name and shape, and may throw. Nothing is allocated
// for a weight that it does not give.
using WeightSource = std::function<at::Tensor(const std::string& name, at::IntArrayRef shape)>;
std::unique_ptr<Model> make_model_from(const WeightSource& source, const ModelOptions& options);

// The same model with a copy of its weights on the device.
std::unique_ptr<Model> copy_to(const Model& model, at::Device device);

// Without values: nothing is allocated, and it answers all that does not depend on them.
std::unique_ptr<Model> outline(const ModelOptions& options);

}  // namespace bridle
