// The distribution proportional to a power of the priority.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "distribution.h"
#include "lazy_array.h"
#include "saved_file.h"

namespace replay {

// P(k) = p_k^alpha / sum_j p_j^alpha (Schaul et al. 2016, equation 1). An unknown
// priority counts as the largest priority seen so far, or as 1 if none was above
// 0. A negative alpha prefers small priorities (Ape-X, appendix D: removal).
//
// A sum tree whose leaves are the masses of all slots, 0 where there is no item.
// Setting or drawing n leaves costs O(n log_8 size). A node is always recomputed
// from its children, so that sums do not drift however often leaves change.
class Proportional : public Distribution {
 public:
  Proportional(size_t max_slots, double exponent) : exponent_(exponent) {
    for (size_t nodes = std::max<size_t>(max_slots, 1); nodes > 1;) {
      const size_t parents = (nodes + kFanout - 1) / kFanout;
      levels_.emplace_back(parents * kFanout);
      nodes = parents;
    }
    levels_.emplace_back(1);
  }

  void Insert(const int32_t* slots, const int64_t*, const float* priorities,
              size_t n) override {
    Update(slots, priorities, n);
  }

  void Update(const int32_t* slots, const float* priorities,
              size_t n) override {
    for (size_t i = 0; i < n; ++i) {
      max_priority_ = std::max(max_priority_, priorities[i]);
    }
    for (size_t i = 0; i < n; ++i) levels_[0][slots[i]] = Mass(priorities[i]);
    SumAbove(slots, n);
  }

  void Erase(const int32_t* slots, size_t n) override {
    for (size_t i = 0; i < n; ++i) levels_[0][slots[i]] = 0;
    SumAbove(slots, n);
  }

  // A slot of mass 0 is never drawn.
  bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
              double* masses) const override {
    if (!(total_mass() > 0)) return false;
    // All points descend together, level by level, so that their cache misses
    // overlap.
    double* const points = masses;
    std::uniform_real_distribution<double> point(0.0, total_mass());
    for (size_t i = 0; i < n; ++i) {
      points[i] = point(rng);
      slots[i] = 0;
    }
    for (size_t level = levels_.size() - 1; level-- > 0;) {
      for (size_t i = 0; i < n; ++i) {
        slots[i] = static_cast<int32_t>(Descend(level, slots[i], points[i]));
        if (level > 0) {
          __builtin_prefetch(levels_[level - 1].data() + slots[i] * kFanout);
        }
      }
    }
    Masses(slots, n, masses);
    return true;
  }

  void Masses(const int32_t* slots, size_t n, double* masses) const override {
    for (size_t i = 0; i < n; ++i) masses[i] = levels_[0][slots[i]];
  }

  double total_mass() const override { return levels_.back()[0]; }

  void Save(Writer& writer, size_t num_slots) const override {
    writer.Value(max_priority_);
    writer.Array(levels_[0].data(), num_slots);
  }

  void Load(FileReader& file, size_t num_slots) override {
    file.Value(max_priority_);
    file.Array(levels_[0].data(), num_slots);
    for (size_t level = 1; level < levels_.size(); ++level) {
      num_slots = (num_slots + kFanout - 1) / kFanout;
      for (size_t node = 0; node < num_slots; ++node) {
        levels_[level][node] = SumOfChildren(level, node);
      }
    }
  }

  void CheckInvariants(const std::vector<int64_t>& keys) const override {
    Ensure(std::isfinite(max_priority_) && max_priority_ >= 0,
           "proportional: wrong largest priority");
    for (size_t leaf = 0; leaf < levels_[0].size(); ++leaf) {
      const double mass = levels_[0][leaf];
      Ensure(std::isfinite(mass) &&
                 (IsItem(keys, leaf) ? mass >= 0 : mass == 0),
             "leaf", leaf, " has a wrong mass");
    }
    Ensure(std::isfinite(total_mass()), "the sum of all masses is infinite");
    for (size_t level = 1; level < levels_.size(); ++level) {
      for (size_t node = 0; node < NumNodes(level); ++node) {
        Ensure(levels_[level][node] == SumOfChildren(level, node), "node", node,
               " is not the sum of its children");
      }
    }
  }

 private:
  static constexpr size_t kFanout = 8;

  double Mass(float priority) const {
    if (priority == kUnknownPriority) {
      priority = max_priority_ > 0 ? max_priority_ : 1.0f;
    }
    return PriorityMass(priority, exponent_);
  }

  // The number of nodes that have children; other nodes at this level are padding.
  size_t NumNodes(size_t level) const {
    return levels_[level - 1].size() / kFanout;
  }

  // Computes the sums above leaves that have changed.
  void SumAbove(const int32_t* leaves, size_t n) {
    changed_.assign(leaves, leaves + n);
    for (size_t level = 1; level < levels_.size(); ++level) {
      if (NumNodes(level) <= changed_.size()) {
        for (size_t node = 0; node < NumNodes(level); ++node) {
          levels_[level][node] = SumOfChildren(level, node);
        }
        continue;
      }
      // Neighbouring leaves share their ancestors, which are computed once.
      for (int32_t& node : changed_) node /= static_cast<int32_t>(kFanout);
      changed_.erase(std::unique(changed_.begin(), changed_.end()),
                     changed_.end());
      for (const int32_t node : changed_) {
        levels_[level][node] = SumOfChildren(level, node);
      }
    }
  }

  // Returns the child, at `level`, of `node` in whose interval the point `mass`
  // lies, and makes `mass` relative to the start of that interval.
  size_t Descend(size_t level, size_t node, double& mass) const {
    const double* c = levels_[level].data() + node * kFanout;
    // Without branches, since the child cannot be predicted.
    double before[kFanout];
    before[0] = 0;
    for (size_t k = 1; k < kFanout; ++k) before[k] = before[k - 1] + c[k - 1];
    size_t child = 0;
    for (size_t k = 1; k < kFanout; ++k) child += mass >= before[k];
    // Rounding can put the point after the last child that has any mass.
    while (c[child] == 0 && child > 0) --child;
    mass = std::min(mass - before[child], c[child]);
    return node * kFanout + child;
  }

  double SumOfChildren(size_t level, size_t node) const {
    const double* c = levels_[level - 1].data() + node * kFanout;
    return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
  }

  const double exponent_;
  float max_priority_ = 0.0f;
  // From the leaves to the root, padded to whole nodes.
  std::vector<LazyArray<double>> levels_;
  std::vector<int32_t> changed_;  // Scratch space of SumAbove.
};

}  // namespace replay
