#include "io/export_torch.h"

#include "base/files.h"
#include "io/modeling_bridle.h"

namespace bridle {

std::string torch_module() { return kTorchModule; }

void write_torch_module(const std::filesystem::path& folder) {
  write_file(folder / "modeling_bridle.py", torch_module());
}

}  // namespace bridle
