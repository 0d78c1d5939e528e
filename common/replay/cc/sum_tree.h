// A sum tree with eight children a node: one cache line of doubles.
#ifndef COMMON_REPLAY_CC_SUM_TREE_H_
#define COMMON_REPLAY_CC_SUM_TREE_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lazy_array.h"

namespace replay {

// Holds a non-negative mass for each of `size` leaves. Setting n leaves and
// drawing n leaves each cost O(n log_8 size). A node is always recomputed from
// its children, so that sums do not drift however often leaves change.
class SumTree {
 public:
  explicit SumTree(size_t size);

  // Sets masses[i] on leaves[i]; of equal leaves the last one counts.
  void Set(const int32_t* leaves, const double* masses, size_t n);

  double Get(int32_t leaf) const { return levels_[0][leaf]; }
  double total() const { return levels_.back()[0]; }

  // Draws n leaves independently, each with probability mass / total. A leaf
  // of mass zero is never drawn. Requires total() > 0.
  void Sample(size_t n, std::mt19937_64& rng, int32_t* leaves) const;

  // The leaf in which the point `mass` in [0, total()) falls.
  int32_t Find(double mass) const;

  // Empty if each node is the sum of its children, else what is wrong.
  std::string CheckInvariants() const;

 private:
  static constexpr size_t kFanout = 8;

  // The child of `node` at `level` into which `mass` falls; leaves in `mass`
  // what is left of it inside that child.
  size_t Descend(size_t level, size_t node, double& mass) const;
  double SumOfChildren(size_t level, size_t node) const;

  std::vector<LazyArray<double>> levels_;  // From the leaves up to the root.
  std::vector<size_t> sizes_;              // Padded to whole nodes.
  std::vector<int32_t> changed_;           // Scratch of Set.
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_SUM_TREE_H_
