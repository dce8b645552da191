// See gather.h. Texts travel after their lengths.
#include "dist/gather.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

namespace bridle {
namespace {

using Json = nlohmann::json;

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

// A view: the text must outlive it.
at::Tensor bytes_of(const std::string& text) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it is only read
  return at::from_blob(const_cast<char*>(text.data()), {std::ssize(text)}, at::kByte);
}

std::string text_of(const at::Tensor& tensor) {
  std::string text(static_cast<size_t>(tensor.numel()), '\0');
  bytes_of(text).copy_(tensor);
  return text;
}

at::Tensor doubles_as_bytes(std::span<const double> numbers) {
  std::string text(numbers.size_bytes(), '\0');
  std::memcpy(text.data(), numbers.data(), numbers.size_bytes());
  return bytes_of(text).clone();
}

void append_numbers(const at::Tensor& tensor, std::vector<double>& all) {
  const std::string text = text_of(tensor);
  const size_t before = all.size();
  all.resize(before + text.size() / sizeof(double));
  std::memcpy(all.data() + before, text.data(), text.size());
}

// Every pair of ranks exchanges texts: to[r] goes to rank r.
std::vector<std::string> exchange_texts(Ranks& ranks, const std::vector<std::string>& to) {
  const auto size = static_cast<size_t>(ranks.size()), own = static_cast<size_t>(ranks.rank());
  std::vector<at::Tensor> lengths(size), lengths_from(size), sent(size), received(size);
  for (size_t r = 0; r < size; ++r) {
    const std::vector<double> length{static_cast<double>(to[r].size())};
    lengths[r] = doubles_as_bytes(length);
    lengths_from[r] = bytes(sizeof(double));
    sent[r] = bytes_of(to[r]);
  }
  ranks.exchange(lengths, lengths_from);
  for (size_t r = 0; r < size; ++r) {
    std::vector<double> length;
    append_numbers(r == own ? lengths[r] : lengths_from[r], length);
    received[r] = bytes(static_cast<int64_t>(length[0]));
  }
  ranks.exchange(sent, received);
  std::vector<std::string> texts;
  for (size_t r = 0; r < size; ++r) texts.push_back(r == own ? to[r] : text_of(received[r]));
  return texts;
}

}  // namespace

std::vector<double> gather_numbers(Ranks& ranks, std::span<const double> own,
                                   std::span<const int64_t> counts) {
  const auto size = static_cast<size_t>(ranks.size()), mine = static_cast<size_t>(ranks.rank());
  const std::vector<at::Tensor> to(size, doubles_as_bytes(own));
  std::vector<at::Tensor> from(size);
  for (size_t r = 0; r < size; ++r)
    from[r] = r == mine ? to[r] : bytes(counts[r] * static_cast<int64_t>(sizeof(double)));
  ranks.exchange(to, from);
  std::vector<double> all;
  for (const at::Tensor& part : from) append_numbers(part, all);
  return all;
}

std::vector<std::string> gather_texts(Ranks& ranks, const std::string& own) {
  return exchange_texts(ranks, std::vector<std::string>(static_cast<size_t>(ranks.size()), own));
}

std::string text_from(Ranks& ranks, int64_t source, const std::vector<std::string>& texts) {
  const bool gives = ranks.rank() == source;
  const std::vector<std::string> none(static_cast<size_t>(ranks.size()));
  return exchange_texts(ranks, gives ? texts : none)[static_cast<size_t>(source)];
}

// A line of JSON that says what follows, and the tensors' bytes.
std::string tensors_to_text(const std::map<std::string, at::Tensor>& tensors) {
  Json header = Json::array();
  for (const auto& [name, tensor] : tensors)
    header.push_back(
        {{"name", name}, {"dtype", static_cast<int>(tensor.scalar_type())}, {"sizes", tensor.sizes().vec()}});
  std::string text = header.dump() + "\n";
  for (const auto& [name, tensor] : tensors)
    text += text_of(tensor.detach().to(at::kCPU).contiguous().reshape({-1}).view(at::kByte));
  return text;
}

std::map<std::string, at::Tensor> tensors_from_text(const std::string& text) {
  const size_t end = text.find('\n');
  int64_t place = static_cast<int64_t>(end) + 1;
  std::map<std::string, at::Tensor> tensors;
  for (const Json& entry : Json::parse(text.substr(0, end))) {
    const auto dtype = static_cast<at::ScalarType>(entry["dtype"].get<int>());
    const auto sizes = entry["sizes"].get<std::vector<int64_t>>();
    const at::Tensor tensor = at::empty(sizes, dtype);
    const at::Tensor own = tensor.reshape({-1}).view(at::kByte);
    own.copy_(bytes_of(text).narrow(0, place, own.numel()));
    place += own.numel();
    tensors.emplace(entry["name"].get<std::string>(), tensor);
  }
  return tensors;
}

}  // namespace bridle
