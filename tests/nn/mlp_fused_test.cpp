// The fused pass against the modules' own forward with LibTorch's gradients.
#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/one_hot.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <stdexcept>

#include "bridle/error.h"
#include "field_count.h"
#include "nn_support.h"
#include "support.h"

namespace bridle {
namespace {

struct Images {
  at::Tensor pixels, targets;
};

Images some_images(int64_t count, int64_t size, int64_t classes) {
  return {test::normal({count, size}, 3, at::kFloat),
          test::normal({count}, 4).mul(1e4).to(at::kLong).remainder(classes)};
}

TEST(MlpFused, AgreesWithItsTwinForEveryShapeAndInstructionSet) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{64, 96, 32, 10}, std::vector<int64_t>{50, 7},
                                            std::vector<int64_t>{3072, 40, 10}}) {
    for (const int64_t images : {1, 64, 301}) {
      const ActivationKind kind = images == 1    ? ActivationKind::maxmin
                                  : images == 64 ? ActivationKind::gelu
                                                 : ActivationKind::relu;
      const MlpOptions options{.layer_sizes = sizes, .activation = kind, .final_scale = 1.5};
      const auto model = test::random_model(options, 0.1);
      const Images data = some_images(images, sizes.front(), sizes.back());
      Pass pass{.margin = images == 64 ? 0.7 : 0.0};
      const at::Tensor logits =
          model->forward(data.pixels, pass).sub(at::one_hot(data.targets, sizes.back()).mul(pass.margin));
      const at::Tensor loss = at::cross_entropy_loss(logits, data.targets);
      std::vector<at::Tensor> weights;
      for (const Param& param : model->params()) weights.push_back(param.tensor);
      const auto gradients = torch::autograd::grad({loss}, weights);
      for (const auto set : {InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512,
                             InstructionSet::avx512_bf16, InstructionSet::amx}) {
        if (set > instruction_set()) continue;
        for (const auto values : {ValueType::bfloat16, ValueType::float32}) {
          const bool narrow = values == ValueType::bfloat16;
          test::Fused fused(*model, step_kernels(values, set));
          const LossAndGradients seen = fused.run(data.pixels, data.targets, true, pass);
          EXPECT_NEAR(seen.loss, loss.item<double>(), (narrow ? 0.01 : 1e-5) * loss.item<double>());
          for (size_t i = 0; i < gradients.size(); ++i)
            EXPECT_LT(seen.gradients[i].sub(gradients[i]).norm().item<double>(),
                      (narrow ? 0.08 : 1e-4) * gradients[i].norm().item<double>() + 1e-6)
                << i << " " << images << " " << instruction_set_name(set) << (narrow ? "" : " float32");
          EXPECT_EQ(fused.run(data.pixels, data.targets, false, pass).loss, seen.loss);
        }
      }
    }
  }
}

TEST(MlpFused, GivesTheSameBitsOnAnyNumberOfThreads) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {3072, 256, 10}}, 0.1);
  const Images data = some_images(200, 3072, 10);
  const int before = at::get_num_threads();
  std::vector<LossAndGradients> seen;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    seen.push_back(test::Fused(*model).run(data.pixels, data.targets, true));
  }
  at::set_num_threads(before);
  for (const LossAndGradients& other : seen) {
    EXPECT_EQ(other.loss, seen[0].loss);
    for (size_t i = 0; i < other.gradients.size(); ++i)
      EXPECT_TRUE(other.gradients[i].equal(seen[0].gradients[i]));
  }
}

TEST(MlpFused, RecordsTheStatisticsOfItsTwin) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {50, 40, 33, 10}}, 0.2);
  const Images data = some_images(37, 50, 10);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    ActivationStatistics plain, fused;
    Pass of_twin{.statistics = &plain}, of_fused{.dtype = dtype, .statistics = &fused};
    model->forward(data.pixels, of_twin);
    ASSERT_TRUE(model->fused_loss(data.pixels, data.targets, of_fused, false).has_value());
    ASSERT_EQ(fused.layers.size(), plain.layers.size());
    for (const auto& [name, layer] : plain.layers) {
      EXPECT_NEAR(fused.layers.at(name).largest_rms, layer.largest_rms, 0.02 * layer.largest_rms) << name;
      EXPECT_NEAR(fused.layers.at(name).largest_entry, layer.largest_entry, 0.03 * layer.largest_entry)
          << name;
    }
  }
}

TEST(MlpFused, RefusesWhatDoesNotFit) {
  const auto model = test::random_model(MlpOptions{.layer_sizes = {8, 3}}, 0.1);
  test::Fused fused(*model);
  Images data = some_images(4, 8, 3);
  EXPECT_THROW(fused.run(data.pixels.narrow(1, 0, 7), data.targets, true), InputError);
  EXPECT_THROW(fused.run(data.pixels, data.targets.narrow(0, 0, 3), true), InputError);
  EXPECT_THROW(fused.run(data.pixels.narrow(0, 0, 0), data.targets.narrow(0, 0, 0), true), InputError);
  data.targets[2] = 3;
  EXPECT_THROW(fused.run(data.pixels, data.targets, true), InputError);
}

// One entry per field of MlpOptions, as in transformer_fused_test.cpp; Mlp::why_not_fused is the allow-list.
struct Field {
  const char* name;
  std::function<void(MlpOptions&)> change;
  const char* why_not = "";  // it is supported
};

std::vector<Field> every_field() {
  using O = MlpOptions;
  return {
      {"hidden_sizes", [](O& o) { o.hidden_sizes = {3}; }},  // of a recipe: layer_sizes count
      {"layer_sizes",
       [](O& o) {
         o.layer_sizes = {64, 32, 7};
       }},
      {"activation", [](O& o) { o.activation = ActivationKind::gelu; }},
      {"bias", [](O& o) { o.bias = true; }, "model.bias"},
      {"input_bound", [](O& o) { o.input_bound = 3.0; }},
      {"initialization", [](O& o) { o.initialization = Initialization::normal; }},
      {"final_scale", [](O& o) { o.final_scale = -3.0; }},
  };
}

TEST(MlpFused, ComputesEveryFieldAsItIsOrSaysNo) {
  EXPECT_EQ(every_field().size(), test::field_count<MlpOptions>());
  EXPECT_EQ(test::field_count<MlpOptions>(), 7U);
  Pass pass{.dtype = at::kBFloat16, .training = true};
  for (const Field& field : every_field()) {
    SCOPED_TRACE(field.name);
    MlpOptions options{.layer_sizes = {64, 96, 32, 10}};
    field.change(options);
    const auto model = test::random_model(options, 0.1);
    const Images data = some_images(64, options.layer_sizes.front(), options.layer_sizes.back());
    EXPECT_EQ(model->why_not_fused(pass), field.why_not);
    const auto fused = model->fused_loss(data.pixels, data.targets, pass, false);
    ASSERT_EQ(fused.has_value(), std::string(field.why_not).empty());
    if (!fused) continue;
    Pass plain;
    const double loss =
        at::cross_entropy_loss(model->forward(data.pixels, plain), data.targets).item<double>();
    EXPECT_NEAR(fused->loss, loss, 0.01 * loss);
  }
}

}  // namespace
}  // namespace bridle
