#include "progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/display.h"

namespace bridle {
namespace {

std::string amount(int64_t value, const std::string& unit) {
  const auto number = static_cast<double>(value);
  if (unit == "bytes")
    return number < 1e6 ? fmt::format("{:.0f} kB", number / 1e3) : fmt::format("{:.1f} MB", number / 1e6);
  return fmt::format("{} {}", value, unit);
}

}  // namespace

ProgressLine::ProgressLine() : terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (dirty_) fmt::print(stderr, "\r\x1b[K");
  dirty_ = false;
}

// Often enough on a terminal, now and then elsewhere.
bool ProgressLine::due() {
  const double pause = terminal_ ? 0.1 : 10.0;
  if (shown_ && shown_->seconds() < pause) return false;
  shown_.emplace();
  return true;
}

void ProgressLine::print(const std::string& line) {
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r\x1b[K" : "", line, terminal_ ? "" : "\n");
  dirty_ = terminal_;
  std::fflush(stderr);
}

void ProgressLine::show_text(const std::string& text, std::optional<double> seconds_left, bool last) {
  if (!due() && !last) return;
  print(last || !seconds_left ? text : fmt::format("{}  {} left", text, shown_time(*seconds_left)));
}

void ProgressLine::show(const Progress& progress) {
  if (progress.what != what_) {
    what_ = progress.what;
    began_.restart();
    shown_.emplace();
    first_ = progress.done;
  }
  const bool complete = progress.total > 0 && progress.done >= progress.total;
  if (!due() && !complete) return;
  std::string line = fmt::format("{}  {}", progress.what, amount(progress.done, progress.unit));
  if (progress.total > 0) {
    line += fmt::format(" of {}  {:.0f} %", amount(progress.total, progress.unit),
                        100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total));
    const double elapsed = began_.seconds();
    if (progress.done > first_ && !complete)
      line +=
          fmt::format("  {} left", shown_time(elapsed * static_cast<double>(progress.total - progress.done) /
                                              static_cast<double>(progress.done - first_)));
  }
  print(line);
}

void ProgressLine::note(const std::string& sentence) {
  clear();
  fmt::print(stderr, "{}\n", sentence);
  std::fflush(stderr);
}

}  // namespace bridle
