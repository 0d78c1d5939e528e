// The distribution proportional to a power of the priority, and its sum tree.
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

// Holds a non-negative mass for each of `size` leaves. Setting or drawing n
// leaves costs O(n log_8 size). A node is always recomputed from its children,
// so that sums do not drift however often leaves change.
class SumTree {
 public:
  explicit SumTree(size_t size) {
    for (size_t nodes = std::max<size_t>(size, 1); nodes > 1;) {
      const size_t parents = (nodes + kFanout - 1) / kFanout;
      levels_.emplace_back(parents * kFanout);
      sizes_.push_back(parents * kFanout);
      nodes = parents;
    }
    levels_.emplace_back(1);
    sizes_.push_back(1);
  }

  // Sets leaves[i] to masses[i]; if a leaf occurs twice, the last mass counts.
  void Set(const int32_t* leaves, const double* masses, size_t n) {
    changed_.assign(leaves, leaves + n);
    for (size_t i = 0; i < n; ++i) levels_[0][leaves[i]] = masses[i];
    for (size_t level = 1; level < levels_.size(); ++level) {
      const size_t nodes = sizes_[level - 1] / kFanout;
      if (nodes <= changed_.size()) {
        for (size_t node = 0; node < nodes; ++node) {
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

  double Get(int32_t leaf) const { return levels_[0][leaf]; }
  double total() const { return levels_.back()[0]; }

  // Draws n leaves independently, each with probability mass / total(). A leaf
  // of mass 0 is never drawn. Requires total() > 0.
  void Sample(size_t n, std::mt19937_64& rng, int32_t* leaves) const {
    // All points descend together, level by level, so that their cache misses
    // overlap.
    std::vector<double> mass(n);
    std::uniform_real_distribution<double> point(0.0, total());
    for (size_t i = 0; i < n; ++i) {
      mass[i] = point(rng);
      leaves[i] = 0;
    }
    for (size_t level = levels_.size() - 1; level-- > 0;) {
      for (size_t i = 0; i < n; ++i) {
        leaves[i] = static_cast<int32_t>(Descend(level, leaves[i], mass[i]));
        if (level > 0) {
          __builtin_prefetch(levels_[level - 1].data() + leaves[i] * kFanout);
        }
      }
    }
  }

  // Saves the first n leaves; those after them have mass 0.
  void Save(Writer& writer, size_t n) const {
    writer.Array(levels_[0].data(), n);
  }
  void Load(FileReader& file, size_t n) {
    file.Array(levels_[0].data(), n);
    for (size_t level = 1; level < levels_.size(); ++level) {
      n = (n + kFanout - 1) / kFanout;
      for (size_t node = 0; node < n; ++node) {
        levels_[level][node] = SumOfChildren(level, node);
      }
    }
  }

  // Returns the first violation found, or an empty string. Only leaves for which
  // keys[leaf] is not negative may have any mass.
  std::string CheckInvariants(const std::vector<int64_t>& keys) const {
    for (size_t leaf = 0; leaf < sizes_[0]; ++leaf) {
      const double mass = levels_[0][leaf];
      const bool may = leaf < keys.size() && keys[leaf] >= 0;
      if (!std::isfinite(mass) || (may ? mass < 0 : mass != 0)) {
        return "leaf " + std::to_string(leaf) + " has mass " +
               std::to_string(mass);
      }
    }
    if (!std::isfinite(total())) return "the sum of all masses is infinite";
    for (size_t level = 1; level < levels_.size(); ++level) {
      const size_t nodes = sizes_[level - 1] / kFanout;
      for (size_t node = 0; node < nodes; ++node) {
        if (levels_[level][node] != SumOfChildren(level, node)) {
          return "node " + std::to_string(node) + " of level " +
                 std::to_string(level) + " is not the sum of its children";
        }
      }
    }
    return "";
  }

 private:
  static constexpr size_t kFanout = 8;

  // Returns the child, at `level`, of `node` in whose interval the point `mass`
  // lies, and makes `mass` relative to the start of that interval.
  size_t Descend(size_t level, size_t node, double& mass) const {
    const double* c = levels_[level].data() + node * kFanout;
    // Free of branches, since the child cannot be predicted.
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

  std::vector<LazyArray<double>> levels_;  // From the leaves to the root.
  std::vector<size_t> sizes_;              // Of levels_, padded to whole nodes.
  std::vector<int32_t> changed_;           // Scratch of Set.
};

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

  void Load(FileReader& file, size_t num_slots) override {
    file.Value(max_priority_);
    tree_.Load(file, num_slots);
  }

  std::string CheckInvariants(const std::vector<int64_t>& keys) const override {
    if (!std::isfinite(max_priority_) || max_priority_ < 0) {
      return "proportional: wrong largest priority";
    }
    return tree_.CheckInvariants(keys);
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
