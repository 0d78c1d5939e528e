// Checks of keys, lengths, priorities and values that come from outside. All
// return a line about the first value refused, or an empty string.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include "distribution.h"

namespace replay {

template <typename... Parts>
std::string Line(const Parts&... parts) {
  std::ostringstream line;
  (line << ... << parts);
  return line.str();
}

// Keys must not be negative; `name` is theirs in the line.
inline std::string CheckKeys(const char* name, const int64_t* keys, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (keys[i] >= 0) continue;
    return Line(name, "[", i, "] must not be negative, is ", keys[i]);
  }
  return "";
}

// Priorities must be finite and not negative, or kUnknownPriority.
inline std::string CheckPriorities(const float* priorities, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float priority = priorities[i];
    if (priority == kUnknownPriority) continue;
    if (priority >= 0 && std::isfinite(priority)) continue;
    return Line("priorities[", i, "] must be finite and not negative (or -1 "
                "for unknown), is ", priority);
  }
  return "";
}

// Lengths must be in [1, capacity], and the keys of an item's steps at most
// 2^63 - 1.
inline std::string CheckLengths(const int64_t* item_keys,
                                const int32_t* lengths, size_t n,
                                size_t capacity) {
  for (size_t i = 0; i < n; ++i) {
    const int32_t length = lengths[i];
    if (length < 1 || static_cast<size_t>(length) > capacity) {
      return Line("item_lengths[", i, "] must be in [1, ", capacity, "], is ",
                  length);
    }
    if (item_keys[i] > std::numeric_limits<int64_t>::max() - (length - 1)) {
      return Line("item_keys[", i, "] + item_lengths[", i, "] must be at most "
                  "2^63, they are ", item_keys[i], " and ", length);
    }
  }
  return "";
}

// Values must be finite, and not below `least`.
inline std::string CheckValues(
    const char* name, const float* values, size_t n,
    float least = std::numeric_limits<float>::lowest()) {
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(values[i])) {
      return Line(name, "[", i, "] must be finite, is ", values[i]);
    }
    if (values[i] < least) {
      return Line(name, "[", i, "] must be at least ", least, ", is ",
                  values[i]);
    }
  }
  return "";
}

}  // namespace replay
