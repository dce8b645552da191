// Shows progress: on a terminal one line that is rewritten, with the time left; elsewhere a plain line now and then.
#pragma once

#include <optional>
#include <string>

#include "base/stopwatch.h"
#include "bridle/progress.h"

namespace bridle {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const Progress& progress);
  // The same, for work that is not counted; the time left where it is known.
  void show_text(const std::string& text, std::optional<double> seconds_left, bool last);
  void note(const std::string& sentence);  // a line that stays
  void clear();

 private:
  bool due();
  void print(const std::string& line);
  bool terminal_;
  bool dirty_ = false;
  std::string what_;
  Timer began_;
  std::optional<Timer> shown_;  // none: nothing yet
  int64_t first_ = 0;           // done when `what_` began: a resumed download starts in the middle
};

}  // namespace bridle
