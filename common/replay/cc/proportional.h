// A distribution proportional to a power of the priority.
#ifndef COMMON_REPLAY_CC_PROPORTIONAL_H_
#define COMMON_REPLAY_CC_PROPORTIONAL_H_

#include <algorithm>
#include <string>
#include <vector>

#include "distribution.h"
#include "priority_mass.h"
#include "sum_tree.h"

namespace replay {

// P(k) = p_k^alpha / sum_j p_j^alpha (Schaul et al. 2016, equation 1). An item
// of unknown priority gets the largest priority seen so far, or 1 if there is
// none. A negative alpha prefers small priorities (Ape-X, appendix D: removal).
class Proportional : public Distribution {
 public:
  Proportional(size_t max_slots, double exponent)
      : exponent_(exponent), tree_(max_slots) {}

  void Insert(const int32_t* slots, const int64_t*, const float* priorities,
              size_t n) override {
    Update(slots, priorities, n);
  }

  void Update(const int32_t* slots, const float* priorities,
              size_t n) override {
    masses_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      max_priority_ = std::max(max_priority_, priorities[i]);
    }
    for (size_t i = 0; i < n; ++i) masses_[i] = Mass(priorities[i]);
    tree_.Set(slots, masses_.data(), n);
  }

  void Erase(const int32_t* slots, size_t n) override {
    masses_.assign(n, 0.0);
    tree_.Set(slots, masses_.data(), n);
  }

  bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
              double* masses) const override {
    if (!(tree_.total() > 0)) return false;
    tree_.Sample(n, rng, slots);
    Masses(slots, n, masses);
    return true;
  }

  void Masses(const int32_t* slots, size_t n, double* masses) const override {
    for (size_t i = 0; i < n; ++i) masses[i] = tree_.Get(slots[i]);
  }

  double total_mass() const override { return tree_.total(); }

  void Save(Writer& writer, size_t num_slots) const override {
    writer.Value(max_priority_);
    tree_.Save(writer, num_slots);
  }

  void Load(Reader& reader, size_t num_slots) override {
    reader.Value(max_priority_);
    tree_.Load(reader, num_slots);
  }

  std::string CheckInvariants(size_t) const override {
    return tree_.CheckInvariants();
  }

 private:
  double Mass(float priority) const {
    if (priority == kUnknownPriority) {
      priority = max_priority_ > 0 ? max_priority_ : 1.0f;
    }
    return PriorityMass(priority, exponent_);
  }

  const double exponent_;
  SumTree tree_;
  float max_priority_ = 0.0f;
  std::vector<double> masses_;  // Scratch of Update and Erase.
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_PROPORTIONAL_H_
