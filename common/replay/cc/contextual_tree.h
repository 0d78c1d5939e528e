// A distribution that infers unknown priorities from the priorities of nearby keys.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "distribution.h"
#include "lazy_array.h"

namespace replay {

// The contextual priority tree of Reactor (Gruslys et al. 2018, sections 3.3 and
// 6.3, figure 5): an AVL tree in the order of keys, which is the order of time.
// An item of known priority has the mass priority ^ exponent. An item of unknown
// priority has the mean mass of the smallest subtree around it that contains a
// known priority. If all masses are 0 or unknown, every item has mass 1.
//
// Insert, Update, Erase and a draw cost O(log n) for each item, and so does
// Masses, except O(1) where the priority is known. As in the paper, Update removes
// an item and inserts it again, so that a known priority tends to be in a leaf.
class ContextualTree : public Distribution {
 public:
  ContextualTree(size_t max_slots, double exponent)
      : exponent_(exponent), nodes_(max_slots), waits_(max_slots) {}

  void Insert(const int32_t* slots, const int64_t* keys,
              const float* priorities, size_t n) override {
    for (size_t i = 0; i < n; ++i) {
      Node& node = nodes_[slots[i]];
      node.key = keys[i];
      node.mass = MassOf(priorities[i]);
      root_ = With(root_.root, slots[i]);
    }
  }

  void Update(const int32_t* slots, const float* priorities,
              size_t n) override {
    for (size_t i = 0; i < n; ++i) {
      nodes_[slots[i]].mass = MassOf(priorities[i]);
      waits_[slots[i]] = true;
    }
    // A slot that occurs twice is moved once. Until then, summaries may lack the
    // new masses of slots that wait; moving these slots corrects the summaries.
    for (size_t i = 0; i < n; ++i) {
      if (!waits_[slots[i]]) continue;
      waits_[slots[i]] = false;
      root_ = Without(root_.root, slots[i]);
      root_ = With(root_.root, slots[i]);
    }
  }

  void Erase(const int32_t* slots, size_t n) override {
    for (size_t i = 0; i < n; ++i) root_ = Without(root_.root, slots[i]);
  }

  bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
              double* masses) const override {
    if (root_.count == 0) return false;
    std::uniform_real_distribution<double> point(0.0, total_mass());
    std::vector<Draw> draws(n);
    for (size_t i = 0; i < n; ++i) {
      draws[i] = {i, root_.root, point(rng), total_mass() / root_.count};
    }
    // All draws descend together, level by level, so that their cache misses
    // overlap.
    while (!draws.empty()) {
      size_t under_way = 0;
      for (Draw& draw : draws) {
        if (Descend(draw)) {
          __builtin_prefetch(&nodes_[draw.node]);
          draws[under_way++] = draw;
        } else {
          slots[draw.number] = draw.node;
          masses[draw.number] = draw.mean;
        }
      }
      draws.resize(under_way);
    }
    return true;
  }

  void Masses(const int32_t* slots, size_t n, double* masses) const override {
    for (size_t i = 0; i < n; ++i) {
      if (!HasMass()) {
        masses[i] = 1;
      } else if (nodes_[slots[i]].mass >= 0) {
        masses[i] = nodes_[slots[i]].mass;
      } else {
        masses[i] = MeanAround(slots[i]);
      }
    }
  }

  double total_mass() const override {
    return HasMass() ? root_.total : root_.count;
  }

  void Save(Writer& writer, size_t num_slots) const override {
    writer.Array(nodes_.data(), num_slots);
    writer.Value(root_);
  }

  void Load(FileReader& file, size_t num_slots) override {
    file.Array(nodes_.data(), num_slots);
    file.Value(root_);
  }

  void CheckInvariants(const std::vector<int64_t>& keys) const override {
    Ensure(root_.count >= 0 &&
               static_cast<size_t>(root_.count) == NumItems(keys),
           "contextual tree: wrong number of items");
    Ensure(root_.height <= kMaxHeight && std::isfinite(root_.total),
           "contextual tree: too high, or of infinite mass");
    const int64_t* last = nullptr;
    Check(keys, root_, &last);
  }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr double kUnknown = -1.0;
  // Above that of any balanced tree of 2^31 nodes.
  static constexpr int32_t kMaxHeight = 48;

  // A subtree and the numbers that its parent needs: c and c m in figure 5.
  struct Subtree {
    double total = kUnknown;  // Sum of all masses, including inferred ones.
    int32_t root = kNone;
    int32_t count = 0;
    int32_t height = 0;
  };

  // The node of an item. It fits a cache line and contains the summaries of its
  // children, so that a descent or an ascent touches one line per level.
  struct Node {
    int64_t key;
    double mass;  // kUnknown if the priority is unknown.
    Subtree children[2];
  };
  static_assert(sizeof(Node) <= 64, "a node fits a cache line");

  // A draw during its descent.
  struct Draw {
    size_t number;
    int32_t node;
    double point;  // Relative to the start of the subtree's interval of masses.
    double mean;   // Mean mass of the smallest subtree so far that is known.
  };

  bool HasMass() const { return root_.total > 0; }
  double MassOf(float priority) const {
    return priority == kUnknownPriority ? kUnknown
                                        : PriorityMass(priority, exponent_);
  }

  // Returns the subtree at `root`, whose children's summaries must be correct.
  Subtree Summary(int32_t root) const {
    const Node& node = nodes_[root];
    const Subtree &left = node.children[0], &right = node.children[1];
    Subtree tree;
    tree.root = root;
    tree.count = left.count + 1 + right.count;
    tree.height = 1 + std::max(left.height, right.height);
    // Unknown parts have the mean mass per item of the known parts.
    int32_t known = 0;
    double sum = 0;
    const auto add = [&](double mass, int32_t count) {
      if (mass < 0) return;
      known += count;
      sum += mass;
    };
    add(left.total, left.count);
    add(node.mass, 1);
    add(right.total, right.count);
    if (known == tree.count) {
      tree.total = sum;
    } else if (known > 0) {
      tree.total = sum / known * tree.count;
    }
    return tree;
  }

  // The same, but first restores the balance: heights may differ by 2.
  Subtree Balanced(int32_t root) {
    Node& node = nodes_[root];
    const int32_t lean = node.children[1].height - node.children[0].height;
    if (std::abs(lean) <= 1) return Summary(root);
    const int high = lean > 0;
    const Node& child = nodes_[node.children[high].root];
    if (child.children[1 - high].height > child.children[high].height) {
      node.children[high] = Raised(node.children[high].root, 1 - high);
    }
    return Raised(root, high);
  }

  // Makes the child of `root` on `side` the root of both.
  Subtree Raised(int32_t root, int side) {
    const int32_t child = nodes_[root].children[side].root;
    nodes_[root].children[side] = nodes_[child].children[1 - side];
    nodes_[child].children[1 - side] = Summary(root);
    return Summary(child);
  }

  Subtree With(int32_t root, int32_t slot) {
    if (root == kNone) {
      nodes_[slot].children[0] = nodes_[slot].children[1] = Subtree();
      return Summary(slot);
    }
    Node& node = nodes_[root];
    Subtree& side = node.children[nodes_[slot].key > node.key];
    side = With(side.root, slot);
    return Balanced(root);
  }

  Subtree Without(int32_t root, int32_t slot) {
    Node& node = nodes_[root];
    if (root != slot) {
      Subtree& side = node.children[nodes_[slot].key > node.key];
      side = Without(side.root, slot);
      return Balanced(root);
    }
    if (node.children[0].root == kNone) return node.children[1];
    if (node.children[1].root == kNone) return node.children[0];
    // The node of the next key takes its place.
    int32_t next = node.children[1].root;
    while (nodes_[next].children[0].root != kNone) {
      next = nodes_[next].children[0].root;
    }
    node.children[1] = Without(node.children[1].root, next);
    nodes_[next].children[0] = node.children[0];
    nodes_[next].children[1] = node.children[1];
    return Balanced(next);
  }

  // Moves a draw down one level. If the item in draw.node is drawn, sets draw.mean
  // to its mass and returns false.
  bool Descend(Draw& draw) const {
    const Node& node = nodes_[draw.node];
    const bool has_mass = HasMass();
    double sides[2];
    for (int side = 0; side < 2; ++side) {
      const Subtree& child = node.children[side];
      sides[side] = has_mass && child.total >= 0 ? child.total
                                                 : child.count * draw.mean;
    }
    const double own = has_mass && node.mass >= 0 ? node.mass : draw.mean;
    // Rounding can put the point after the last part that has any mass.
    int side;
    if (sides[0] > 0 && (draw.point < sides[0] || !(own + sides[1] > 0))) {
      side = 0;
    } else if (sides[1] > 0 && draw.point >= sides[0] + own) {
      draw.point -= sides[0] + own;
      side = 1;
    } else if (own > 0 || !(sides[1] > 0)) {
      draw.mean = own;
      return false;
    } else {
      draw.point = 0;
      side = 1;
    }
    const Subtree& child = node.children[side];
    draw.node = child.root;
    if (has_mass && child.total >= 0) draw.mean = child.total / child.count;
    return true;
  }

  // Returns the mean mass of the smallest subtree around an item that contains a
  // known priority.
  double MeanAround(int32_t slot) const {
    const int64_t key = nodes_[slot].key;
    const Subtree* tree = &root_;
    double mean = kUnknown;
    for (;;) {
      if (tree->total >= 0) mean = tree->total / tree->count;
      if (tree->root == slot) return mean;
      const Node& node = nodes_[tree->root];
      tree = &node.children[key > node.key];
    }
  }

  // Checks the subtree at `tree.root`. Its keys must be above `**last`, unless
  // `*last` is null. Points `*last` to its last key.
  void Check(const std::vector<int64_t>& keys, const Subtree& tree,
             const int64_t** last) const {
    if (tree.root == kNone) {
      Ensure(tree.count == 0 && tree.height == 0 && tree.total == kUnknown,
             "contextual tree: an empty subtree has items");
      return;
    }
    Ensure(IsItem(keys, tree.root), "contextual tree: a node without an item");
    const Node& node = nodes_[tree.root];
    Ensure(node.key == keys[tree.root], "contextual tree: a wrong key");
    const auto ensure = [&](bool holds, const char* broken) {
      Ensure(holds, "contextual tree: key", node.key, broken);
    };
    const Subtree &left = node.children[0], &right = node.children[1];
    // Counts and heights that fall towards the leaves also show that there is no
    // cycle.
    ensure(left.count >= 0 && right.count >= 0 &&
               tree.count == int64_t{left.count} + 1 + right.count,
           " has a wrong count");
    ensure(std::min(left.height, right.height) >= 0 &&
               std::max(left.height, right.height) < tree.height,
           " has a wrong height");
    ensure(node.mass == kUnknown || (0 <= node.mass && std::isfinite(node.mass)),
           " has a wrong mass");
    Check(keys, left, last);
    ensure(*last == nullptr || **last < node.key, " is out of order");
    *last = &node.key;
    Check(keys, right, last);
    ensure(std::abs(left.height - right.height) <= 1, " is out of balance");
    const Subtree summary = Summary(tree.root);
    ensure(tree.height == summary.height && tree.total == summary.total,
           " has a wrong summary");
  }

  const double exponent_;
  LazyArray<Node> nodes_;  // By slot.
  LazyArray<bool> waits_;  // By slot; scratch space of Update.
  Subtree root_;
};

}  // namespace replay
