// Checks of the invariants of data structures.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace replay {

// A violated invariant; the message is one line.
class BrokenInvariant : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws BrokenInvariant with the message `broken` unless `holds`.
inline void Ensure(bool holds, const char* broken) {
  if (!holds) throw BrokenInvariant(broken);
}

// The same for an element with a number, which the message contains.
inline void Ensure(bool holds, const char* element, int64_t number,
                   const char* broken) {
  if (holds) return;
  throw BrokenInvariant(element + (" " + std::to_string(number)) + broken);
}

}  // namespace replay
