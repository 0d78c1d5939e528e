// The checks of what must always hold of a structure.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace replay {

// A violation; the message is one line.
class BrokenInvariant : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws BrokenInvariant unless it holds.
inline void Ensure(bool holds, const char* broken) {
  if (!holds) throw BrokenInvariant(broken);
}

// The same of an element that has a number.
inline void Ensure(bool holds, const char* element, int64_t number,
                   const char* broken) {
  if (holds) return;
  throw BrokenInvariant(element + (" " + std::to_string(number)) + broken);
}

}  // namespace replay
