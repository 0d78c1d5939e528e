// Distributions over the items of a memory, behind one interface.
#ifndef COMMON_REPLAY_CC_DISTRIBUTION_H_
#define COMMON_REPLAY_CC_DISTRIBUTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

namespace replay {

// The raw priority of an item of which none is known yet.
constexpr float kUnknownPriority = -1.0f;

// Items are named by their slot in the memory, in [0, max_slots). Raw
// priorities are finite and not negative, or kUnknownPriority; what mass
// follows from one is the distribution's own affair.
class Distribution {
 public:
  virtual ~Distribution() = default;

  // Slots must be absent for Insert and present for Update and Erase. Of equal
  // slots in one Update the last one counts.
  virtual void Insert(const int32_t* slots, const float* priorities,
                      size_t n) = 0;
  virtual void Update(const int32_t* slots, const float* priorities,
                      size_t n) = 0;
  virtual void Erase(const int32_t* slots, size_t n) = 0;

  // Draws n items with replacement, with their masses. False if no item can be
  // drawn; nothing is written then.
  virtual bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
                      double* masses) const = 0;

  virtual double total_mass() const = 0;

  // Empty, or the first violation found, given the number of items stored.
  virtual std::string CheckInvariants(size_t count) const = 0;
};

// What a distribution is made from: a kind ("uniform", "proportional", "fifo")
// and, for proportional, the exponent.
struct DistributionSpec {
  std::string kind;
  double exponent;
};

// Null if the kind is unknown.
std::unique_ptr<Distribution> MakeDistribution(const DistributionSpec& spec,
                                               size_t max_slots);

}  // namespace replay

#endif  // COMMON_REPLAY_CC_DISTRIBUTION_H_
