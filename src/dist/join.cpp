// Ranks through a process group: tensors go over Gloo, and a watch (watch.h) says who is there. Gloo itself is told to wait for long:
// it cannot know a rank that works alone for minutes from one that is stopped.
#include <fmt/format.h>

#include <future>
#include <mutex>
#include <thread>

#include "bridle/ranks.h"
#include "dist/group.h"
#include "dist/watch.h"

namespace bridle {
namespace {

constexpr std::chrono::hours kLongest{24};

class GroupRanks : public Ranks {
 public:
  explicit GroupRanks(const JoinOptions& options) : options_(options) {
    if (options.rank == 0) store_ = serve_group_store(options.timeout);
    watch_ = std::make_unique<Watch>(
        WatchOptions{.rank = options.rank,
                     .size = options.size,
                     .rendezvous = options.rendezvous,
                     .timeout = options.timeout,
                     .version = options.version.empty() ? BRIDLE_VERSION : options.version,
                     .facts = store_ ? std::to_string(store_->port()) : "",
                     .on_failure = [this] { abort(); }});
    guarded("could not connect to all others", [&] { connect(); });
  }

  int64_t rank() const override { return options_.rank; }
  int64_t size() const override { return options_.size; }

  void exchange(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) override {
    try {
      post(to, from);
      for (const auto& transfer : transfers_)
        guarded(fmt::format("lost its connection to rank {}", transfer->other()), [&] {
          if (!transfer->wait()) throw std::runtime_error("aborted");
        });
    } catch (...) {
      forget();
      throw;
    }
    forget();
  }

  void fail(const std::string& why) noexcept override {
    try {
      watch_->fail(why);
    } catch (...) {  // then they see that this rank is lost
    }
  }

  void leave() override {
    watch_->leave();
    if (const auto failure = watch_->failure()) throw RankError("ranks", *failure);
  }

 private:
  void connect() {
    if (!store_)
      store_ = open_group_store(watch_->leader_address(), static_cast<uint16_t>(std::stoi(watch_->facts())),
                                options_.timeout);
    const GroupOptions options{
        .rank = options_.rank, .size = options_.size, .address = watch_->own_address(), .timeout = kLongest};
    // On a thread that is left alone with it where another rank fails meanwhile: nothing ends Gloo's own wait.
    const auto made = std::make_shared<std::promise<std::unique_ptr<Group>>>();
    std::thread([store = store_, options, made] {
      try {
        made->set_value(make_gloo_group(*store, options));
      } catch (...) {
        made->set_exception(std::current_exception());
      }
    }).detach();
    auto group = made->get_future();
    while (group.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready)
      if (const auto failure = watch_->failure()) throw RankError("ranks", *failure);
    group_ = group.get();
  }

  void post(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
    const std::scoped_lock lock(mutex_);
    if (const auto failure = watch_->failure()) throw RankError("ranks", *failure);
    ++tag_;
    // Later ranks first: all begin with another one.
    for (int64_t step = 1; step < size(); ++step) {
      const int64_t there = (rank() + step) % size(), here = (rank() + size() - step) % size();
      const at::Tensor& received = from[static_cast<size_t>(here)];
      const at::Tensor& sent = to[static_cast<size_t>(there)];
      if (received.defined() && received.numel() > 0)
        transfers_.push_back(group_->receive(received, here, tag_));
      if (sent.defined() && sent.numel() > 0) transfers_.push_back(group_->send(sent, there, tag_));
    }
  }

  // What the engine throws becomes what the ranks agree on.
  template <class Work>
  void guarded(const std::string& what, const Work& work) {
    try {
      work();
    } catch (const RankError&) {
      throw;
    } catch (const std::exception&) {
      throw RankError("ranks",
                      watch_->verdict(fmt::format("rank {} of {} {}", options_.rank, options_.size, what)));
    }
  }

  void abort() {
    const std::scoped_lock lock(mutex_);
    for (const auto& transfer : transfers_) transfer->abort();
  }

  void forget() {
    const std::scoped_lock lock(mutex_);
    transfers_.clear();
  }

  JoinOptions options_;
  std::shared_ptr<GroupStore> store_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  int tag_ = 0;
  std::unique_ptr<Group> group_;
  std::unique_ptr<Watch> watch_;  // last: its thread aborts transfers
};

}  // namespace

std::string why_no_ranks() { return why_no_group(); }

std::shared_ptr<Ranks> join_ranks(const JoinOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw InputError("ranks",
                     fmt::format("rank {} of {} ranks: they count from 0", options.rank, options.size));
  if (options.timeout.count() <= 0) throw InputError("ranks", "the timeout must be positive");
  if (options.size == 1) return alone();
  if (!why_no_group().empty()) throw InputError("ranks", why_no_group());
  return std::make_shared<GroupRanks>(options);
}

}  // namespace bridle
