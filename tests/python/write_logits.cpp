// What models of C++ compute, for tests/python/test_model.py to hold the Python module against: write_logits FOLDER INPUTS
// COLUMNS OUT … reads token ids (int64) or pixels (float32) in rows of so many columns and writes logits (float32), all raw;
// any number of models. It goes through the public headers alone, not through operators.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include "bridle/bridle.h"

namespace {

void write_logits(const char* folder, const char* inputs_path, const char* columns_word,
                  const char* out_path) {
  const auto model = bridle::read_model(folder).model;
  std::ifstream in(inputs_path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  const bool tokens = model->shape().input == bridle::InputKind::tokens;
  const int64_t columns = std::atoll(columns_word);
  const auto rows = static_cast<int64_t>(bytes.size()) / columns / (tokens ? 8 : 4);
  const at::Tensor inputs = at::from_blob(bytes.data(), {rows, columns}, tokens ? at::kLong : at::kFloat);
  bridle::Pass pass;
  const at::Tensor logits = model->forward(inputs, pass).contiguous();
  std::ofstream out(out_path, std::ios::binary);
  out.write(static_cast<const char*>(logits.data_ptr()), static_cast<std::streamsize>(logits.nbytes()));
  if (!out.flush()) throw std::runtime_error(std::string("cannot write ") + out_path);
}

}  // namespace

int main(int count, char** words) {
  if (count % 4 != 1) {
    std::cerr << "usage: write_logits FOLDER INPUTS COLUMNS OUT …\n";
    return 2;
  }
  try {
    const at::NoGradGuard no_gradients;
    for (int i = 1; i < count; i += 4) write_logits(words[i], words[i + 1], words[i + 2], words[i + 3]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
