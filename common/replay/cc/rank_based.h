// A distribution by the rank of the priority.
#ifndef COMMON_REPLAY_CC_RANK_BASED_H_
#define COMMON_REPLAY_CC_RANK_BASED_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "distribution.h"
#include "lazy_array.h"

namespace replay {

// P(k) = p_k / sum_i p_i with p = rank ^ -exponent, where the largest priority
// has rank 1 (Schaul et al. 2016, section 3.3). An item has p = 1 until it takes
// part in a ranking with a known priority. Items are ranked after every `period`
// calls of Update; in between they keep their p, and those that leave take
// theirs with them.
//
// A ranking merges what has changed into the one before, whose other items are
// copied in runs. With n ranked items and m changed ones it costs O(m log n) and
// copying; a draw O(log n), Insert O(1) and Erase O(log n) for each item.
class RankBased : public Distribution {
 public:
  RankBased(size_t max_slots, double exponent, int64_t period);

  void Insert(const int32_t* slots, const int64_t* keys,
              const float* priorities, size_t n) override;
  void Update(const int32_t* slots, const float* priorities,
              size_t n) override;
  void Erase(const int32_t* slots, size_t n) override;
  bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
              double* masses) const override;
  void Masses(const int32_t* slots, size_t n, double* masses) const override;
  double total_mass() const override;
  std::string CheckInvariants(size_t count) const override;

 private:
  // Stands for the place of an item that is ranked.
  static constexpr int32_t kRanked = -1;

  struct Item {
    float priority;  // The latest, which counts in the next ranking.
    float ranked;    // That of the ranking, if the item is ranked.
    int32_t place;   // In unranked_, or kRanked.
    bool has_changed;
  };

  // A rank. The slot of an item that has left is inverted, and no item.
  struct Rank {
    float priority;
    int32_t slot;
  };

  static bool Before(const Rank& a, const Rank& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    return SlotOf(a) < SlotOf(b);
  }
  static int32_t SlotOf(const Rank& rank) {
    return rank.slot < 0 ? ~rank.slot : rank.slot;
  }

  size_t FindRank(int32_t slot) const;
  void Change(int32_t slot, float priority);
  void AddUnranked(int32_t slot);
  void RemoveUnranked(int32_t slot);
  void RankAnew();
  double mass_of_ranked() const {
    return num_ranked_ == left_.size()
               ? 0.0
               : cumulative_[num_ranked_] - mass_of_left_;
  }

  const double exponent_;
  const int64_t period_;
  LazyArray<Item> items_;  // By slot.
  LazyArray<int32_t> unranked_;
  size_t num_unranked_ = 0;
  LazyArray<Rank> ranks_, next_;
  size_t num_ranked_ = 0;  // Those that have left included.
  std::vector<size_t> left_;  // Ranks of items that have left since the ranking.
  double mass_of_left_ = 0;
  std::vector<int32_t> changed_;  // Slots; in use again or empty perhaps.
  int64_t updates_ = 0;           // Since the ranking.
  LazyArray<double> masses_;      // By rank, from 0.
  LazyArray<double> cumulative_;  // The masses of all ranks below.
  size_t num_masses_ = 0;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_RANK_BASED_H_
