// How much memory this process can still take without anybody being killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace bridle {

// Bytes: what the kernel calls available, or what is left below a control group's limit where that is less. None where the system
// does not say. The folders are for tests.
std::optional<int64_t> available_memory(const std::filesystem::path& proc = "/proc",
                                        const std::filesystem::path& cgroups = "/sys/fs/cgroup");

}  // namespace bridle
