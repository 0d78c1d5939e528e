// The mass of a known priority.
#ifndef COMMON_REPLAY_CC_PRIORITY_MASS_H_
#define COMMON_REPLAY_CC_PRIORITY_MASS_H_

#include <algorithm>
#include <cmath>

namespace replay {

// Returns priority ^ exponent. Under a negative exponent priorities below 1e-6
// count as 1e-6: the mass of 0 would be infinite.
inline double PriorityMass(float priority, double exponent) {
  constexpr float kSmallest = 1e-6f;
  if (exponent < 0) priority = std::max(priority, kSmallest);
  return std::pow(static_cast<double>(priority), exponent);
}

}  // namespace replay

#endif  // COMMON_REPLAY_CC_PRIORITY_MASS_H_
