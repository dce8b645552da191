// Single files out of a tar.gz archive.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bridle/progress.h"

namespace bridle {

// Writes the members whose whole path inside the archive is in `wanted` ("package/data/data.txt") into the folder, which
// exists, under their base names ("data.txt"). Reads no further than the last of them. Progress is in compressed bytes.
// Throws InputError if the archive is damaged, a member is missing or is no regular file; members written before stay,
// the one at fault does not. gzip's own checksum is not compared: callers who know a member's SHA-256 check it.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder,
            const std::vector<std::string>& wanted, const OnProgress& on_progress = {});

}  // namespace bridle
