// LibTorch's process groups (c10d), with what differs between its versions (1.13 to 2.14) and between builds with and without Gloo's
// headers. No other file includes c10d.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace bridle {

// Through which the members of a group find each other's addresses: a server in rank 0's process, on a port that the system chooses.
class GroupStore {
 public:
  virtual ~GroupStore() = default;
  virtual uint16_t port() const = 0;
};
std::unique_ptr<GroupStore> serve_group_store(std::chrono::milliseconds timeout);
std::unique_ptr<GroupStore> open_group_store(const std::string& host, uint16_t port,
                                             std::chrono::milliseconds timeout);

struct GroupOptions {
  int64_t rank = 0;
  int64_t size = 1;
  std::string address = {};  // of this machine, as the others reach it
  std::chrono::milliseconds timeout = std::chrono::minutes(2);
};

// Messages on their way: wait ends them, or throws what went wrong. Another thread may abort them; wait then returns false.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual int64_t other() const = 0;  // the rank at the other end
  virtual bool wait() = 0;
  virtual void abort() = 0;
};

class Group {
 public:
  virtual ~Group() = default;
  // Bytes (kByte, [n], contiguous); a tag is used once.
  virtual std::unique_ptr<Transfer> send(const at::Tensor& bytes, int64_t to, int tag) = 0;
  virtual std::unique_ptr<Transfer> receive(const at::Tensor& bytes, int64_t from, int tag) = 0;
};

// Gloo, over TCP. All members make it together; `store` must outlive it.
std::unique_ptr<Group> make_gloo_group(const GroupStore& store, const GroupOptions& options);

std::string why_no_group();  // empty where there is Gloo

}  // namespace bridle
