#include "sum_tree.h"

#include <algorithm>
#include <cmath>

namespace replay {

SumTree::SumTree(size_t size) {
  for (size_t nodes = std::max<size_t>(size, 1); nodes > 1;) {
    const size_t parents = (nodes + kFanout - 1) / kFanout;
    levels_.emplace_back(parents * kFanout);
    sizes_.push_back(parents * kFanout);
    nodes = parents;
  }
  levels_.emplace_back(1);
  sizes_.push_back(1);
}

double SumTree::SumOfChildren(size_t level, size_t node) const {
  const double* c = levels_[level - 1].data() + node * kFanout;
  return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
}

void SumTree::Set(const int32_t* leaves, const double* masses, size_t n) {
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

size_t SumTree::Descend(size_t level, size_t node, double& mass) const {
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

void SumTree::Sample(size_t n, std::mt19937_64& rng, int32_t* leaves) const {
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

void SumTree::Load(Reader& reader, size_t n) {
  reader.Array(levels_[0].data(), n);
  for (size_t level = 1; level < levels_.size(); ++level) {
    n = (n + kFanout - 1) / kFanout;
    for (size_t node = 0; node < n; ++node) {
      levels_[level][node] = SumOfChildren(level, node);
    }
  }
}

std::string SumTree::CheckInvariants() const {
  for (size_t leaf = 0; leaf < sizes_[0]; ++leaf) {
    const double mass = levels_[0][leaf];
    if (!std::isfinite(mass) || mass < 0) {
      return "leaf " + std::to_string(leaf) + " has mass " +
             std::to_string(mass);
    }
  }
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

}  // namespace replay
