// Files out of archives: tar.gz as npm packs it, and Debian's packages.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bridle/progress.h"

namespace bridle {

// Writes the members whose whole path inside the archive is in `wanted` ("package/data/data.txt") into the folder, which
// exists, under their base names ("data.txt"). Reads no further than the last of them. Progress is in compressed bytes.
// Throws InputError if the archive is damaged, a member is missing or is no regular file; members written before stay,
// the one at fault does not. gzip's own checksum is not compared: callers who know a member's SHA-256 check it.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder,
            const std::vector<std::string>& wanted, const OnProgress& on_progress = {});

struct MemberVisitor {
  std::function<bool(const std::string& path)> wanted;
  std::function<void(const std::string& path, std::string contents)> take;
};

// Gives the contents of every wanted regular file, in the archive's order; links and folders are passed over. The archive is
// a tar.gz or a Debian package, whose paths are given without the leading "./". Throws InputError if it is damaged.
void visit_members(const std::filesystem::path& archive, const MemberVisitor& visitor,
                   const OnProgress& on_progress = {});

// What gzip has compressed; throws InputError, naming `name`, if it is damaged.
std::string gunzip(const std::string& name, std::string_view bytes);

}  // namespace bridle
