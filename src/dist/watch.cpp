// See watch.h. The lines:  hello WORD RANK SIZE VERSION  →  welcome FACTS, and then either way
//   alive   |   failed WHY   |   bye, from each when its work is done, and back from rank 0 when that of all is
#include "dist/watch.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "bridle/error.h"

namespace bridle {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRetry{50};
constexpr milliseconds kGrace{3000};  // for what rank 0 says to arrive after what one sees oneself

std::string shown(milliseconds time) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(time).count());
}

// For all to come. Those that one process has started on this machine are on their way, however long they take to load.
milliseconds patience(const Rendezvous& rendezvous, milliseconds timeout) {
  return rendezvous.is_given() ? std::max(timeout, milliseconds(60000)) : timeout;
}

milliseconds interval(milliseconds timeout) {
  return std::clamp(timeout / 8, milliseconds(20), milliseconds(2000));
}

// One line, waited for; none where the other end is closed or says nothing.
std::optional<std::string> line_within(LineSocket& socket, milliseconds wait) {
  const auto end = Clock::now() + wait;
  while (true) {
    const bool open = socket.receive();
    if (auto line = socket.next_line()) return line;
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (!open || left.count() <= 0) return std::nullopt;
    pollfd one{socket.descriptor(), POLLIN, 0};
    poll(&one, 1, static_cast<int>(left.count()));
  }
}

// "failed WHY" → WHY
std::optional<std::string> after(const std::string& word, const std::string& line) {
  if (!line.starts_with(word + " ")) return std::nullopt;
  return line.substr(word.size() + 1);
}

}  // namespace

Watch::Watch(WatchOptions options) : options_(std::move(options)) {
  options_.rank == 0 ? gather() : join();
  const auto now = Clock::now();
  for (Member& member : members_) member.heard = now;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Watch::~Watch() = default;

std::string Watch::name(int64_t rank) const { return fmt::format("rank {} of {}", rank, options_.size); }

void Watch::gather() {
  Rendezvous rendezvous(options_.rendezvous);
  const Descriptor listener = rendezvous.listen();
  std::vector<bool> here(static_cast<size_t>(options_.size));
  here[0] = true;
  const milliseconds wait = patience(rendezvous, options_.timeout);
  const auto end = Clock::now() + wait;
  while (!std::all_of(here.begin(), here.end(), [](bool is) { return is; })) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (left.count() <= 0) {
      const auto missing = std::find(here.begin(), here.end(), false) - here.begin();
      decide(fmt::format("{} has not come to {} within {}: start it, or check that it can reach this address",
                         name(missing), rendezvous.text(), shown(wait)));
    }
    if (failure_) {
      rendezvous.close();
      throw RankError("ranks", *failure_);
    }
    auto socket = accept_from(listener, std::min(left, milliseconds(200)));
    if (!socket) continue;
    const auto hello = line_within(*socket, milliseconds(2000));
    std::istringstream words(hello.value_or(""));
    std::string greeting, word, version;
    int64_t rank = -1, size = 0;
    if (!(words >> greeting >> word >> rank >> size >> version) || greeting != "hello" ||
        word != rendezvous.word())
      continue;  // not one of ours
    if (own_address_.empty() || own_address_.starts_with("127.")) own_address_ = socket->own_address();
    const bool known = rank > 0 && rank < options_.size;
    members_.push_back({std::move(*socket), rank, Clock::now()});
    if (size != options_.size || !known)
      decide(fmt::format("rank {} says that it is one of {}: start all with the same number of ranks, {}",
                         rank, size, options_.size));
    else if (version != options_.version)
      decide(fmt::format("{} runs Bridle {} and rank 0 runs {}: install the same on all machines", name(rank),
                         version, options_.version));
    else if (here[static_cast<size_t>(rank)])
      decide(fmt::format("two processes say that they are {}: give each a number of its own", name(rank)));
    else
      here[static_cast<size_t>(rank)] = true;
  }
  rendezvous.close();
  tell_all(fmt::format("welcome {}", options_.facts));
  leader_address_ = own_address_;
}

void Watch::join() {
  Rendezvous rendezvous(options_.rendezvous);
  const milliseconds wait = patience(rendezvous, options_.timeout);
  const auto end = Clock::now() + wait;
  // A little longer than rank 0 waits, so that it is rank 0 that says who is missing.
  const auto last = end + std::min(wait, 2 * kGrace);
  while (Clock::now() < end) {
    auto socket = rendezvous.connect(milliseconds(1000));
    if (!socket || !socket->send(fmt::format("hello {} {} {} {}", rendezvous.word(), options_.rank,
                                             options_.size, options_.version))) {
      std::this_thread::sleep_for(kRetry);
      continue;
    }
    const auto line = line_within(*socket, std::chrono::duration_cast<milliseconds>(last - Clock::now()));
    if (!line) {
      std::this_thread::sleep_for(kRetry);
      continue;
    }
    if (const auto why = after("failed", *line)) throw RankError("ranks", *why);
    if (const auto facts = after("welcome", *line)) {
      options_.facts = *facts;
      own_address_ = socket->own_address();
      leader_address_ = socket->other_address();
      members_.push_back({std::move(*socket), 0, Clock::now()});
      return;
    }
  }
  throw RankError("ranks", fmt::format("{} has not answered at {} within {}: start it, or check that {} can "
                                       "reach this address",
                                       name(0), rendezvous.text(), shown(wait), name(options_.rank)));
}

void Watch::watch(const std::stop_token& stop) {
  const milliseconds every = interval(options_.timeout);
  auto next = Clock::now();
  while (!stop.stop_requested()) {
    std::vector<pollfd> sockets;
    {
      const std::scoped_lock lock(mutex_);
      if (Clock::now() >= next) {
        next = Clock::now() + every;
        tell_all("alive");
      }
      for (const Member& member : members_)
        if (member.open) sockets.push_back({member.socket.descriptor(), POLLIN, 0});
    }
    poll(sockets.data(), sockets.size(), 20);
    bool failed = false;
    {
      const std::scoped_lock lock(mutex_);
      const bool before = failure_.has_value();
      for (Member& member : members_)
        if (member.open) listen_to(member);
      look_for_silence();
      if (leaving_ && options_.rank == 0 && !released_ && all_left()) {
        tell_all("bye");
        released_ = true;
      }
      failed = failure_.has_value() && !before;
      changed_.notify_all();
    }
    if (failed && options_.on_failure) options_.on_failure();
  }
}

void Watch::listen_to(Member& member) {
  member.open = member.socket.receive();
  while (const auto line = member.socket.next_line()) take(member, *line);
  if (member.open || member.left || released_) return;
  decide(fmt::format("{} was lost: its process was killed or ended, or its machine went down",
                     name(member.rank)));
}

void Watch::take(Member& member, const std::string& line) {
  member.heard = Clock::now();
  if (line == "bye" && options_.rank == 0) member.left = true;
  if (line == "bye" && options_.rank != 0) released_ = true;
  if (const auto why = after("failed", line)) decide(*why);
}

void Watch::look_for_silence() {
  for (const Member& member : members_) {
    if (!member.open || member.left || released_ || Clock::now() - member.heard < options_.timeout) continue;
    decide(fmt::format("{} has not been heard for {}: it is stopped, or the network to it is down",
                       name(member.rank), shown(options_.timeout)));
  }
}

void Watch::decide(const std::string& failure) {
  if (failure_) return;
  failure_ = failure;
  tell_all("failed " + failure);
}

void Watch::tell_all(const std::string& line) {
  for (Member& member : members_)
    if (member.open) member.socket.send(line);
}

bool Watch::all_left() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.left; });
}

std::optional<std::string> Watch::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void Watch::fail(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  decide(fmt::format("{}: {}", name(options_.rank), why));
}

std::string Watch::verdict(const std::string& guess) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::min(kGrace, options_.timeout), [this] { return failure_.has_value(); });
  decide(guess);
  return *failure_;
}

void Watch::leave() {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  if (options_.rank != 0) tell_all("bye");
  changed_.wait(lock, [this] { return released_ || failure_.has_value(); });
}

}  // namespace bridle
