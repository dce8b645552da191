// See group.h. BRIDLE_GLOO: CMake has found Gloo's headers, which libtorch-dev leaves to libgloo-dev.
#include "dist/group.h"

#include "bridle/error.h"

#ifdef BRIDLE_GLOO
#ifndef USE_C10D_GLOO  // LibTorch's CMake package says it in some versions
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

namespace bridle {

#ifdef BRIDLE_GLOO
namespace {

using std::chrono::milliseconds;
using Store = c10::intrusive_ptr<c10d::Store>;

// Since 2.4 stores use libuv unless told otherwise, also in builds that have none.
template <class Options>
void use_plain_sockets(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

class TcpStore : public GroupStore {
 public:
  TcpStore(const std::string& host, uint16_t port, bool serves, milliseconds timeout) {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = serves;
    options.waitWorkers = false;
    options.timeout = timeout;
    use_plain_sockets(options);
    store_ = c10::make_intrusive<c10d::TCPStore>(host, options);
  }
  uint16_t port() const override { return store_->getPort(); }
  Store store() const { return store_; }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

class WorkTransfer : public Transfer {
 public:
  WorkTransfer(c10::intrusive_ptr<c10d::Work> work, int64_t other) : work_(std::move(work)), other_(other) {}
  int64_t other() const override { return other_; }
  bool wait() override { return work_->wait(); }
  void abort() override { work_->abort(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  int64_t other_;
};

// The base of backends is ProcessGroup in 1.13 and Backend since 2.0: each is taken as what it is.
template <class Backend>
class BackendGroup : public Group {
 public:
  explicit BackendGroup(c10::intrusive_ptr<Backend> backend) : backend_(std::move(backend)) {}
  std::unique_ptr<Transfer> send(const at::Tensor& bytes, int64_t to, int tag) override {
    std::vector<at::Tensor> one{bytes};
    return std::make_unique<WorkTransfer>(backend_->send(one, static_cast<int>(to), tag), to);
  }
  std::unique_ptr<Transfer> receive(const at::Tensor& bytes, int64_t from, int tag) override {
    std::vector<at::Tensor> one{bytes};
    return std::make_unique<WorkTransfer>(backend_->recv(one, static_cast<int>(from), tag), from);
  }

 private:
  c10::intrusive_ptr<Backend> backend_;
};

Store store_of(const GroupStore& store) { return dynamic_cast<const TcpStore&>(store).store(); }

}  // namespace

std::unique_ptr<GroupStore> serve_group_store(milliseconds timeout) {
  return std::make_unique<TcpStore>("127.0.0.1", 0, /*serves=*/true, timeout);
}

std::unique_ptr<GroupStore> open_group_store(const std::string& host, uint16_t port, milliseconds timeout) {
  return std::make_unique<TcpStore>(host, port, /*serves=*/false, timeout);
}

std::unique_ptr<Group> make_gloo_group(const GroupStore& store, const GroupOptions& options) {
  using Gloo = c10d::ProcessGroupGloo;
  const auto settings = Gloo::Options::create(options.timeout);
  settings->devices.push_back(Gloo::createDeviceForHostname(options.address));
  settings->threads = 1;
  return std::make_unique<BackendGroup<Gloo>>(c10::make_intrusive<Gloo>(
      store_of(store), static_cast<int>(options.rank), static_cast<int>(options.size), settings));
}

std::string why_no_group() { return ""; }

#else

std::string why_no_group() {
  return "this build of Bridle has no Gloo, through which processes exchange weights: install libgloo-dev "
         "and build again";
}

namespace {
[[noreturn]] void refuse() { throw InputError("ranks", why_no_group()); }
}  // namespace

std::unique_ptr<GroupStore> serve_group_store(std::chrono::milliseconds /*timeout*/) { refuse(); }
std::unique_ptr<GroupStore> open_group_store(const std::string& /*host*/, uint16_t /*port*/,
                                             std::chrono::milliseconds /*timeout*/) {
  refuse();
}
std::unique_ptr<Group> make_gloo_group(const GroupStore& /*store*/, const GroupOptions& /*options*/) {
  refuse();
}

#endif

}  // namespace bridle
