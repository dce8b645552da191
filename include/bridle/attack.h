// Attacks on an image classifier: the accuracy that is left under perturbations of ℓ2 norm ε over all pixels, in plain units of
// [0, 1], beside the certified accuracy.
//
// Two independent attacks: projected gradient descent (PGD) with restarts and targets, whose step size adapts per image; and a
// black-box search that sees logits alone and adds cosine waves. A success counts only if the float32 network misclassifies at a
// distance that is at most ε in float64. Changing a certified prediction throws: docs/theory/predictions.md
//
//   const AttackResult result = attack(*model, source, {.epsilons = {0.5, 1.0}});
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "bridle/loader.h"
#include "bridle/nn.h"
#include "bridle/progress.h"

namespace bridle {

struct AttackOptions {
  std::vector<double> epsilons = {};  // ascending; empty: 36/255 and 0.25 to 4
  int64_t images = 2000;              // the first ones
  int restarts = 4;   // PGD restarts per image and ε: the first on the cross-entropy, the others targeted
  int steps = 40;     // PGD steps per restart
  int queries = 200;  // cosine waves of the black-box search, each tried with both signs; 0: no search
  bool box = true;    // pixels stay in [0, 1]
  int64_t examples = 8;
  uint64_t seed = 0;
  std::optional<ChannelStatistics> standardised = {};  // what the model's pixels were standardised by
};

// Shares of the images; a success at a smaller ε is one at a larger ε too.
struct AttackPoint {
  double epsilon = 0.0;
  double accuracy = 0.0;              // under both attacks
  double accuracy_by_gradient = 0.0;  // under PGD alone
  double accuracy_by_search = 0.0;    // under the black-box search alone
  double probability = 0.0;           // of the right class: the mean over images of the least that was found
  double certified_accuracy = 0.0;
};

struct AttackResult {
  int64_t images = 0;
  double accuracy = 0.0;
  double probability = 0.0;
  std::vector<AttackPoint> points = {};
  at::Tensor broken = {};    // [ε, images]: classified correctly before the attack, misclassified after it
  at::Tensor examples = {};  // [1 + ε, examples, pixels] plain: clean, and the worst perturbation at each ε
};

// Throws InputError for a model of text; PromiseError where the model has no bound, and where an attack changes
// a certified prediction.
AttackResult attack(const Model& model, const std::shared_ptr<const Source>& source,
                    const AttackOptions& options = {}, const OnProgress& progress = {});

// A sheet of images as a PNG file: `images` [columns, rows, pixels] in [0, 1], such as AttackResult::examples, three channels
// of a square each, enlarged `scale` times. Throws InputError.
void write_sheet(const at::Tensor& images, const std::filesystem::path& path, int64_t scale = 3);

// Whether `pixels` are three square channels.
bool is_square_picture(int64_t pixels);

}  // namespace bridle
