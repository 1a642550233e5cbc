// std::visit with a function for each type:
//
//   std::visit(Cases{[](const Append& one) { … }, [](const auto&) {}}, action);
#pragma once

namespace thinwire {

template <typename... Calls>
struct Cases : Calls... {
  using Calls::operator()...;
};
template <typename... Calls>
Cases(Calls...) -> Cases<Calls...>;

}  // namespace thinwire
