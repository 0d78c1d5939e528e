#include "arguments.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "distribution.h"

namespace replay {
namespace {

template <typename... Parts>
std::string Line(const Parts&... parts) {
  std::ostringstream line;
  (line << ... << parts);
  return line.str();
}

}  // namespace

std::string CheckKeys(const char* name, const int64_t* keys, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (keys[i] < 0) {
      return Line(name, "[", i, "] must not be negative, is ", keys[i]);
    }
  }
  return "";
}

std::string CheckPriorities(const float* priorities, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float priority = priorities[i];
    if (!(std::isfinite(priority) &&
          (priority >= 0 || priority == kUnknownPriority))) {
      return Line("priorities[", i, "] must be finite and not negative (or -1 "
                  "for unknown), is ", priority);
    }
  }
  return "";
}

std::string CheckLengths(const int64_t* item_keys, const int32_t* lengths,
                         size_t n, size_t capacity) {
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

std::string CheckValues(const char* name, const float* values, size_t n,
                        float least) {
  for (size_t i = 0; i < n; ++i) {
    if (std::isfinite(values[i]) && values[i] >= least) continue;
    const bool is_low = values[i] < least && std::isfinite(values[i]);
    return is_low ? Line(name, "[", i, "] must be at least ", least, ", is ",
                         values[i])
                  : Line(name, "[", i, "] must be finite, is ", values[i]);
  }
  return "";
}

}  // namespace replay
