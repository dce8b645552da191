// An event file of TensorBoard: records of length, checksum of the length, message, checksum of the message; the messages are
// those of tensorboard.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace bridle {

class EventFile {
 public:
  // A new file in the folder, named as TensorBoard finds it. Throws InputError.
  explicit EventFile(const std::filesystem::path& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& by_tag);
  void histogram(int64_t step, const std::string& tag, const std::vector<double>& values);  // all finite
  void text(int64_t step, const std::string& tag, const std::string& text);
  void restart(int64_t step);  // what other files have of this step and later ones is void
  void sync();
  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& message);
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace bridle
