#include "nn/fused_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "nn/transformer.h"
#include "nn_support.h"

namespace bridle {
namespace {

std::unique_ptr<FusedProgram> program_of(const Model& model) {
  return dynamic_cast<const Transformer&>(model).fused_program(step_kernels_plain());
}

TEST(FusedProgram, CutsBatchesByShapeAlone) {
  const auto model = make_model(TransformerOptions{.vocab_size = 65, .max_position_embeddings = 256}, 1);
  const auto program = program_of(*model);
  const FusedShape usual = program->shape_of(64, 256);
  EXPECT_EQ(usual.group, 2);
  const std::vector<int64_t> bounds = usual.bounds();
  EXPECT_EQ(bounds[1], 2);
  EXPECT_EQ(bounds[bounds.size() - 2], 63);  // the last ones are small
  EXPECT_EQ(bounds.back(), 64);
  EXPECT_EQ(usual.slots, 4);
  EXPECT_FALSE(usual.shared);
  EXPECT_EQ(program->shape_of(16, 256).group, 2);  // enough of them to share among threads
  EXPECT_EQ(program->shape_of(13, 100).rows, 128);
  EXPECT_TRUE(program->shape_of(1, 4096).shared);
  EXPECT_EQ(program->shape_of(1, 4096).slots, 1);
}

TEST(FusedProgram, LargeWeightsAreSharedByAllThreads) {
  const auto model = make_model(
      TransformerOptions{
          .vocab_size = 20000, .hidden_size = 512, .num_hidden_layers = 1, .max_position_embeddings = 64},
      std::nullopt);
  const FusedShape shape = program_of(*model)->shape_of(100, 64);
  EXPECT_TRUE(shape.shared);
  EXPECT_EQ(shape.group, 64);
  EXPECT_EQ(shape.bounds(), (std::vector<int64_t>{0, 64, 100}));
}

// Buffers that are needed at the same time never share memory: at every segment, there and back, those in use are apart.
TEST(FusedProgram, BuffersOfOneTimeAreApart) {
  TransformerOptions options = test::small_transformer();
  options.num_hidden_layers = 4;
  const auto model = make_model(options, 1);
  const auto program = program_of(*model);
  const int64_t rows = 64;
  for (const bool gradients : {false, true}) {
    const auto layout = program->layout(rows, gradients);
    // What is live at a time: everything between its first and last use.
    std::vector<std::vector<int>> used;
    const auto collect = [&](const FusedProgram::Segment& segment, bool back) {
      used.emplace_back();
      for (size_t i = segment.begin; i < segment.end; ++i) {
        const auto uses = program->operations()[i]->uses();
        for (const FusedBuffer buffer : back ? uses.backward : uses.forward)
          if (buffer) used.back().push_back(buffer.index);
      }
    };
    for (const auto& segment : program->forward_segments()) collect(segment, false);
    for (auto s = program->backward_segments().rbegin();
         gradients && s != program->backward_segments().rend(); ++s)
      collect(*s, true);
    std::vector<int> live;
    for (size_t time = 0; time < used.size(); ++time) {
      for (const int a : used[time]) {
        for (size_t other = 0; other < used.size(); ++other) {
          for (const int b : used[other]) {
            if (a == b) continue;
            const auto spans = [&](int buffer) {  // buffer is live at `time`
              bool before = false, after = false;
              for (size_t t = 0; t < used.size(); ++t) {
                const bool here = std::count(used[t].begin(), used[t].end(), buffer) > 0;
                before = before || (here && t <= time);
                after = after || (here && t >= time);
              }
              return before && after;
            };
            if (!spans(b)) continue;
            const auto& buffers = program->buffers();
            const int64_t begin_a = layout.offsets[static_cast<size_t>(a)],
                          begin_b = layout.offsets[static_cast<size_t>(b)];
            const bool apart = begin_a + buffers[static_cast<size_t>(a)].bytes(rows) <= begin_b ||
                               begin_b + buffers[static_cast<size_t>(b)].bytes(rows) <= begin_a;
            EXPECT_TRUE(apart) << a << " and " << b << " at " << time;
          }
        }
      }
    }
  }
}

TEST(FusedProgram, EvaluationNeedsNoMoreMemoryForMoreLayers) {
  const auto bytes = [](int64_t layers, bool gradients) {
    TransformerOptions options = test::small_transformer();
    options.num_hidden_layers = layers;
    const auto model = make_model(options, 1);
    return program_of(*model)->layout(256, gradients).bytes;
  };
  EXPECT_EQ(bytes(3, false), bytes(9, false));
  EXPECT_LT(bytes(3, false), bytes(3, true));
  EXPECT_LT(bytes(3, true), bytes(9, true));
}

TEST(FusedProgram, KnowsWeightsByTheirTensorsAndNotByTheirNames) {
  const auto model = make_model(test::small_transformer(), 1);
  const auto program = program_of(*model);
  Param renamed = model->params()[3];
  renamed.name = "another name";
  EXPECT_EQ(program->place_of(renamed), 3U);
  renamed.tensor = renamed.tensor.clone();
  EXPECT_THROW(program->place_of(renamed), std::logic_error);
}

}  // namespace
}  // namespace bridle
