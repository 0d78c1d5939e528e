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
// calls of Update, and when half of the mass has left; in between they keep
// their p, and those that leave take theirs with them.
//
// A ranking merges what has changed into the one before, whose other items are
// copied in runs. With n ranked items and m changed ones it costs O(m log n) and
// copying. Insert is O(1) for each item, Erase and a draw are O(log n).
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
  void Save(Writer& writer, size_t num_slots) const override;
  void Load(Reader& reader, size_t num_slots) override;
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

  // An item of the ranking, as a number by which it is sorted: the largest
  // priority first, then the smallest slot. The last bit says that the item has
  // left since.
  using Ranked = uint64_t;
  static Ranked MakeRanked(float priority, int32_t slot);
  static int32_t SlotOf(Ranked ranked) {
    return static_cast<int32_t>(static_cast<uint32_t>(ranked) >> 1);
  }
  static bool HasLeft(Ranked ranked) { return ranked & 1; }

  // Returns how many items of the ranking come before each of `wanted`.
  std::vector<size_t> Find(const std::vector<Ranked>& wanted) const;
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
  LazyArray<Ranked> ranking_, next_;
  size_t num_ranked_ = 0;  // Those that have left included.
  std::vector<size_t> left_;  // Places in the ranking whose items have left.
  double mass_of_left_ = 0;
  std::vector<int32_t> changed_;  // Slots; some may have been erased since.
  int64_t updates_ = 0;           // Since the ranking.
  LazyArray<double> masses_;      // By rank, from 0.
  LazyArray<double> cumulative_;  // The sum of the masses of the ranks below.
  size_t num_masses_ = 0;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_RANK_BASED_H_
