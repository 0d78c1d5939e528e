// The interface of distributions over the items of a memory.
#ifndef COMMON_REPLAY_CC_DISTRIBUTION_H_
#define COMMON_REPLAY_CC_DISTRIBUTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "snapshot.h"

namespace replay {

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

  // Draws n items with replacement and gets their masses. Returns false, and
  // writes nothing, if no item can be drawn.
  virtual bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
                      double* masses) const = 0;

  // Gets the masses of items.
  virtual void Masses(const int32_t* slots, size_t n, double* masses) const = 0;

  virtual double total_mass() const = 0;

  // Saves everything; slots from num_slots on have never been used. Load
  // requires a new distribution of the same spec and size.
  virtual void Save(Writer& writer, size_t num_slots) const = 0;
  virtual void Load(Reader& reader, size_t num_slots) = 0;

  // Returns the first violation found, or an empty string. `count` is the
  // number of items in the memory.
  virtual std::string CheckInvariants(size_t count) const = 0;
};

// The description of a distribution.
struct DistributionSpec {
  // "uniform", "fifo", "proportional", "contextual" or "rank_based".
  std::string kind;
  // The power of the priority in "proportional" and "contextual", and that of
  // 1 / rank in "rank_based".
  double exponent;
  // The share of draws that are uniform, in [0, 1].
  double uniform_mix;
  // The updates from one ranking to the next in "rank_based".
  int64_t period = 1;
};

// Makes a distribution; returns null if the kind is unknown.
std::unique_ptr<Distribution> MakeDistribution(const DistributionSpec& spec,
                                               size_t max_slots);

}  // namespace replay

#endif  // COMMON_REPLAY_CC_DISTRIBUTION_H_
