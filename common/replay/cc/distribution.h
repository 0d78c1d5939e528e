// The interface of distributions over the items of a memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "invariants.h"
#include "saved_file.h"

namespace replay {

// The key of a slot without an item.
constexpr int64_t kNoItem = -1;

// The raw priority of an item whose priority is not known yet.
constexpr float kUnknownPriority = -1.0f;

// A distribution over items. An item is identified by its slot in the memory,
// in [0, max_slots). Raw priorities are finite and not negative, or
// kUnknownPriority; each distribution derives masses from them in its own way.
class Distribution {
 public:
  virtual ~Distribution() = default;

  // Insert requires slots that are absent, and keys that differ from those of
  // all items present; Update, Erase and Masses require slots that are present.
  // If a slot occurs twice in one Update, the last priority counts.
  virtual void Insert(const int32_t* slots, const int64_t* keys,
                      const float* priorities, size_t n) = 0;
  virtual void Update(const int32_t* slots, const float* priorities,
                      size_t n) = 0;
  virtual void Erase(const int32_t* slots, size_t n) = 0;

  // Draws n items with replacement and writes their slots and masses. Returns
  // false, and writes nothing, if no item can be drawn.
  virtual bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
                      double* masses) const = 0;

  // Writes the masses of items.
  virtual void Masses(const int32_t* slots, size_t n, double* masses) const = 0;

  virtual double total_mass() const = 0;

  // Saves the whole state; slots from num_slots on have never been used. Load
  // requires a new distribution of the same spec and size. It may be called only
  // if no invariant is broken then: Load checks what it uses itself.
  virtual void Save(Writer& writer, size_t num_slots) const = 0;
  virtual void Load(FileReader& file, size_t num_slots) = 0;

  // Throws BrokenInvariant. `keys` contains the key of the item in each slot, or
  // kNoItem.
  virtual void CheckInvariants(const std::vector<int64_t>& keys) const = 0;

 protected:
  // Returns whether a number, of any value, is the slot of an item.
  static bool IsItem(const std::vector<int64_t>& keys, int64_t slot) {
    return 0 <= slot && slot < static_cast<int64_t>(keys.size()) &&
           keys[slot] != kNoItem;
  }
  static size_t NumItems(const std::vector<int64_t>& keys) {
    return keys.size() - std::count(keys.begin(), keys.end(), kNoItem);
  }
};

// The description of a distribution.
struct DistributionSpec {
  // "uniform", "fifo", "proportional", "contextual" or "rank_based".
  std::string kind;
  // The power of the priority in "proportional" and "contextual", and of 1 / rank
  // in "rank_based".
  double exponent;
  // The share of draws that are uniform, in [0, 1].
  double uniform_mix;
  // The number of updates from one ranking to the next in "rank_based".
  int64_t period = 1;
};

// Creates a distribution; returns null if the kind is unknown.
std::unique_ptr<Distribution> MakeDistribution(const DistributionSpec& spec,
                                               size_t max_slots);

// Returns priority ^ exponent. With a negative exponent, priorities below 1e-6
// count as 1e-6, since the mass of 0 would be infinite.
inline double PriorityMass(float priority, double exponent) {
  constexpr float kSmallest = 1e-6f;
  if (exponent < 0) priority = std::max(priority, kSmallest);
  return std::pow(static_cast<double>(priority), exponent);
}

}  // namespace replay
