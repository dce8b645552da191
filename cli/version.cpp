// See version.h. The only file of the command line that is compiled anew for every commit.
#include "version.h"

#include <fmt/format.h>
#include <torch/version.h>

namespace bridle {

std::string commit() { return BRIDLE_COMMIT; }

std::string version_text() {
  const std::string built_from = commit().empty() ? "" : fmt::format(" ({})", commit());
  return fmt::format("bridle {}{}, LibTorch {}", BRIDLE_VERSION, built_from, TORCH_VERSION);
}

}  // namespace bridle
