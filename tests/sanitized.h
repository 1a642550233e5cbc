// Whether tests run under AddressSanitizer or ThreadSanitizer, which make them many times slower
// and hold on to freed memory.
#pragma once

namespace thinwire::tests {

#if !defined(__has_feature)
inline constexpr bool kSanitized = false;
#elif __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace thinwire::tests
