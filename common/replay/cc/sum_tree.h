// A sum tree with eight children per node: one cache line of doubles.
#ifndef COMMON_REPLAY_CC_SUM_TREE_H_
#define COMMON_REPLAY_CC_SUM_TREE_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lazy_array.h"
#include "snapshot.h"

namespace replay {

// Holds a non-negative mass for each of `size` leaves. Setting or drawing n
// leaves costs O(n log_8 size). A node is always recomputed from its children,
// so that sums do not drift however often leaves change.
class SumTree {
 public:
  explicit SumTree(size_t size);

  // Sets leaves[i] to masses[i]; if a leaf occurs twice, the last mass counts.
  void Set(const int32_t* leaves, const double* masses, size_t n);

  double Get(int32_t leaf) const { return levels_[0][leaf]; }
  double total() const { return levels_.back()[0]; }

  // Draws n leaves independently, each with probability mass / total(). A leaf
  // of mass 0 is never drawn. Requires total() > 0.
  void Sample(size_t n, std::mt19937_64& rng, int32_t* leaves) const;

  // Saves the first n leaves; those after them have mass 0.
  void Save(Writer& writer, size_t n) const { writer.Array(levels_[0].data(), n); }
  void Load(Reader& reader, size_t n);

  // Returns the first violation found, or an empty string.
  std::string CheckInvariants() const;

 private:
  static constexpr size_t kFanout = 8;

  // Returns the child, at `level`, of `node` in whose interval the point `mass`
  // lies, and makes `mass` relative to the start of that interval.
  size_t Descend(size_t level, size_t node, double& mass) const;
  double SumOfChildren(size_t level, size_t node) const;

  std::vector<LazyArray<double>> levels_;  // From the leaves to the root.
  std::vector<size_t> sizes_;              // Of levels_, padded to whole nodes.
  std::vector<int32_t> changed_;           // Scratch of Set.
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_SUM_TREE_H_
