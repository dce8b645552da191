// A program that knows nothing of Bridle but its installed headers: caps the spectral norm of a plain Linear, and certifies a
// model in a folder that another program can check.
#include <bridle/bridle.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>

namespace {

bool capped_layer_is_proved() {
  torch::NoGradGuard no_grad;
  torch::nn::Linear layer(64, 32);
  layer->weight.mul_(100.0);
  const bridle::Param weight{.name = "weight", .tensor = layer->weight.detach()};
  bridle::Enforcer enforcer(weight, {.method = "soft_cap"}, 2.0);
  enforcer.start_();
  layer->weight.add_(0.05 * bridle::orthogonalize(torch::randn({32, 64})) * weight.unit());
  enforcer.enforce_({.learning_rate = 0.05, .update_bound = 1.0});
  enforcer.prove_and_repair_();
  return bridle::prove_norm(weight, 2.0);
}

// Ten vectors, and whatever class the model gives them.
class Vectors : public bridle::Source {
 public:
  explicit Vectors(const bridle::Model& model) : inputs_(torch::rand({10, 12})) {
    bridle::Pass pass;
    labels_ = model.forward(inputs_, pass).argmax(1);
  }
  int64_t size() const override { return 10; }
  int64_t stride() const override { return 1; }
  bridle::Batch read(std::span<const int64_t> starts) const override {
    const at::Tensor rows = torch::tensor(at::IntArrayRef(starts.data(), starts.size()), torch::kLong);
    return {inputs_.index_select(0, rows), labels_.index_select(0, rows)};
  }

 private:
  at::Tensor inputs_, labels_;
};

bool model_is_certified(const std::filesystem::path& folder) {
  const auto model = bridle::make_model(bridle::MlpOptions{.layer_sizes = {12, 16, 4}}, 1);
  {
    torch::NoGradGuard no_grad;
    for (const bridle::Param& param : model->params()) param.tensor.copy_(torch::randn_like(param.tensor));
  }
  const bridle::CertifiedBound bound = bridle::certify(*model);
  std::filesystem::create_directories(folder);
  const auto written = bridle::write_model(*model, folder, bridle::certificate_metadata(bound));
  const double observed = bridle::search_stretch(*model, {.starts = 2, .rounds = 10}).lipschitz;
  const std::filesystem::path path = folder / "certificate.json";
  bridle::write_certificate(path, bridle::certificate_of(written, *model, bound, observed));

  if (bridle::read_certificate(path).bound.lipschitz.value != bound.lipschitz.value) return false;
  bridle::check_certificate(path, folder);  // throws unless it holds
  const auto stored = bridle::read_model(folder);
  const auto source = std::make_shared<Vectors>(*stored.model);
  const auto predictions = bridle::certify_predictions(*stored.model, source, {.epsilons = {1e-4}});
  const auto attacked = bridle::attack(*stored.model, source, {.epsilons = {1e-4}, .steps = 5, .queries = 5});
  return observed <= bound.lipschitz.value && predictions.of("exact").shares[0].certified > 0.0 &&
         attacked.points[0].certified_accuracy <= attacked.points[0].accuracy;
}

}  // namespace

int main() {
  torch::manual_seed(1);
  return capped_layer_is_proved() && model_is_certified("consumer_model") ? 0 : 1;
}
