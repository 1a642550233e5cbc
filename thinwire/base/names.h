// Names, as recipes, tables and messages spell them: those of an enumeration's values, and patterns
// over names. Such an enumeration has the underlying type uint8_t, counts from 0, and comes with a
// function names_of(E) that lists the names in that order.
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

// Whether the pattern matches the whole name: '*' matches any text, every other character only
// itself.
constexpr bool matches_pattern(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t from = star; from <= name.size(); ++from) {
    if (matches_pattern(rest, name.substr(from))) return true;
  }
  return false;
}

}  // namespace thinwire
