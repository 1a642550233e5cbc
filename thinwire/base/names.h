// Enumerations whose values have names, as recipes, tables and messages spell them. Such an
// enumeration has the underlying type uint8_t, counts from 0, and comes with a function names_of(E)
// that lists the names in that order.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace thinwire {

template <typename E>
concept Named =
    std::is_enum_v<E> && std::same_as<std::underlying_type_t<E>, uint8_t> && requires(E value) {
      { names_of(value) } -> std::same_as<std::span<const std::string_view>>;
    };

template <Named E>
constexpr std::string_view name_of(E value) {
  return names_of(value)[static_cast<size_t>(value)];
}

// nullopt if no value has this name.
template <Named E>
constexpr std::optional<E> value_named(std::string_view name) {
  const std::span<const std::string_view> names = names_of(E{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace thinwire
