// What kind of build this is, and how much repetition it can afford.
#pragma once

#include <cstdint>

namespace nocter_tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// ThreadSanitizer runs the handler of a signal when the thread next calls what it intercepts, and a futex is not of that kind.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kHandlersWait = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kHandlersWait = true;
#else
inline constexpr bool kHandlersWait = false;
#endif
#else
inline constexpr bool kHandlersWait = false;
#endif

// The same test with fewer rounds under a sanitizer, which makes each round ten times as dear.
constexpr uint64_t rounds(uint64_t plain, uint64_t sanitized) { return kSanitized ? sanitized : plain; }

}  // namespace nocter_tests
