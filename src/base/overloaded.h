// One callable of several lambdas, for std::visit.
#pragma once

namespace bridle {

template <class... Parts>
struct Overloaded : Parts... {
  using Parts::operator()...;
};
template <class... Parts>
Overloaded(Parts...) -> Overloaded<Parts...>;

}  // namespace bridle
