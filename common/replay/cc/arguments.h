// Checks of keys, lengths, priorities and values that come from outside.
#ifndef COMMON_REPLAY_CC_ARGUMENTS_H_
#define COMMON_REPLAY_CC_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace replay {

// All return a line about the first value refused, or an empty string.

// Keys must not be negative; `name` is theirs in the line.
std::string CheckKeys(const char* name, const int64_t* keys, size_t n);

// Priorities must be finite and not negative, or kUnknownPriority.
std::string CheckPriorities(const float* priorities, size_t n);

// Lengths must be in [1, capacity], and the keys of an item's steps at most
// 2^63 - 1.
std::string CheckLengths(const int64_t* item_keys, const int32_t* lengths,
                         size_t n, size_t capacity);

// Values must be finite, and not below `least`.
std::string CheckValues(const char* name, const float* values, size_t n,
                        float least = std::numeric_limits<float>::lowest());

}  // namespace replay

#endif  // COMMON_REPLAY_CC_ARGUMENTS_H_
