// A distribution that infers unknown priorities from those of nearby keys.
#ifndef COMMON_REPLAY_CC_CONTEXTUAL_TREE_H_
#define COMMON_REPLAY_CC_CONTEXTUAL_TREE_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "distribution.h"
#include "lazy_array.h"

namespace replay {

// The contextual priority tree of Reactor (Gruslys et al. 2018, sections 3.3 and
// 6.3, figure 5): an AVL tree in the order of keys, that is of time. An item of
// known priority has the mass priority ^ exponent. One of unknown priority has
// the mean mass of the smallest subtree around it of which anything is known. If
// all masses are 0 or unknown, every item has mass 1.
//
// Insert, Update, Erase and a draw cost O(log n) for each item, and Masses too,
// or O(1) where the priority is known. Update removes an item and inserts it
// anew, as in the paper, so that a known priority tends to be in a leaf.
class ContextualTree : public Distribution {
 public:
  ContextualTree(size_t max_slots, double exponent)
      : exponent_(exponent), nodes_(max_slots), waits_(max_slots) {}

  void Insert(const int32_t* slots, const int64_t* keys,
              const float* priorities, size_t n) override;
  void Update(const int32_t* slots, const float* priorities,
              size_t n) override;
  void Erase(const int32_t* slots, size_t n) override;
  bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
              double* masses) const override;
  void Masses(const int32_t* slots, size_t n, double* masses) const override;
  double total_mass() const override;
  void Save(Writer& writer, size_t num_slots) const override;
  void Load(Reader& reader, size_t num_slots) override;
  std::string CheckInvariants(size_t count) const override;

 private:
  static constexpr int32_t kNone = -1;
  static constexpr double kUnknown = -1.0;

  // A subtree and what its parent must know of it: c and c m in figure 5.
  struct Subtree {
    double total = kUnknown;  // Sum of all masses, inferred ones included.
    int32_t root = kNone;
    int32_t count = 0;
    int32_t height = 0;
  };

  // The node of an item. It fits a cache line, and holds the summaries of its
  // children, so that a descent or an ascent touches one line a level.
  struct Node {
    int64_t key;
    double mass;  // kUnknown if the priority is unknown.
    Subtree children[2];
  };
  static_assert(sizeof(Node) <= 64, "a node fits a cache line");

  // A draw on its way down.
  struct Draw {
    size_t number;
    int32_t node;
    double point;  // In the interval of masses that `node` begins.
    double mean;   // Of the smallest subtree so far of which anything is known.
  };

  bool HasMass() const { return root_.total > 0; }
  double MassOf(float priority) const;

  // Returns the subtree at `root`, whose children are right.
  Subtree Summary(int32_t root) const;
  // The same, but restores the balance first: heights may differ by 2.
  Subtree Balanced(int32_t root);
  // Makes the child of `root` on `side` the root of both.
  Subtree Raised(int32_t root, int side);
  Subtree With(int32_t root, int32_t slot);
  Subtree Without(int32_t root, int32_t slot);

  // Moves a draw down one level. Returns false, and sets draw.mean to the mass
  // of the item in draw.node, if that is the one drawn.
  bool Descend(Draw& draw) const;
  // Returns the mean mass of the smallest subtree around an item of which
  // anything is known.
  double MeanAround(int32_t slot) const;

  // Checks the subtree at `tree.root`, whose keys must be above `*last`, if
  // there is one, and sets `last` to the last of them.
  std::string Check(const Subtree& tree, const int64_t** last) const;

  const double exponent_;
  LazyArray<Node> nodes_;  // By slot.
  LazyArray<bool> waits_;  // By slot; scratch of Update.
  Subtree root_;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_CONTEXTUAL_TREE_H_
