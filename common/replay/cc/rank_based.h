// A distribution over the ranks of priorities.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "distribution.h"
#include "lazy_array.h"

namespace replay {

// Returns, for each i below n, how many of `count` sorted elements come before i,
// according to is_before(element, i). All searches advance together and without
// branches, so that their cache misses overlap.
template <typename IsBefore>
std::vector<size_t> Search(size_t count, size_t n, IsBefore is_before) {
  std::vector<size_t> found(n, 0);
  for (size_t length = count; length > 0;) {
    const size_t half = (length + 1) / 2;
    for (size_t i = 0; i < n; ++i) {
      found[i] += is_before(found[i] + half - 1, i) ? half : 0;
    }
    length -= half;
  }
  return found;
}

// P(k) = p_k / sum_i p_i with p = rank ^ -exponent, where the largest priority
// has rank 1 (Schaul et al. 2016, section 3.3). An item has p = 1 until it takes
// part in a ranking with a known priority. Items are ranked after every `period`
// calls of Update, and when items with more than half of the ranking's mass have
// been erased. In between, items keep their p, and the p of erased items drops out
// of the sum.
//
// A ranking merges the changed items into the previous ranking. With n ranked and
// m changed items it costs O(n + m log n). Insert is O(1) for each item, Erase and
// a draw are O(log n).
class RankBased : public Distribution {
 public:
  RankBased(size_t max_slots, double exponent, int64_t period)
      : exponent_(exponent),
        period_(period),
        items_(max_slots),
        unranked_(max_slots),
        ranking_(max_slots),
        next_(max_slots),
        masses_(max_slots),
        cumulative_(max_slots + 1) {}

  void Insert(const int32_t* slots, const int64_t*, const float* priorities,
              size_t n) override {
    for (size_t i = 0; i < n; ++i) {
      items_[slots[i]] = {kUnknownPriority, 0.0f, kRanked, 0};
      AddUnranked(slots[i]);
      if (priorities[i] != kUnknownPriority) Change(slots[i], priorities[i]);
    }
    // Without updates the list of changes would grow without bound.
    if (changed_.size() > 2 * (num_unranked_ + num_ranked_)) RankAnew();
  }

  void Update(const int32_t* slots, const float* priorities,
              size_t n) override {
    for (size_t i = 0; i < n; ++i) Change(slots[i], priorities[i]);
    if (++updates_ >= period_) RankAnew();
  }

  void Erase(const int32_t* slots, size_t n) override {
    std::vector<Ranked> leaving;
    for (size_t i = 0; i < n; ++i) {
      Item& item = items_[slots[i]];
      item.has_changed = 0;
      if (item.place == kRanked) {
        leaving.push_back(MakeRanked(item.ranked, slots[i]));
      } else {
        RemoveUnranked(slots[i]);
      }
    }
    for (const size_t place : Find(leaving)) {
      ranking_[place] |= 1;
      left_.push_back(place);
      mass_of_left_ += masses_[place];
    }
    // Otherwise most draws would hit places whose items have been erased.
    if (2 * mass_of_left_ > cumulative_[num_ranked_]) RankAnew();
  }

  bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
              double* masses) const override {
    if (num_unranked_ + num_ranked_ == left_.size()) return false;
    const double unranked = static_cast<double>(num_unranked_);
    const double* const cumulative = cumulative_.data() + 1;
    std::uniform_real_distribution<double> point(
        0.0, unranked + cumulative_[num_ranked_]);
    const double total = total_mass();
    // The remaining draws; draws of erased items are repeated.
    std::vector<size_t> draws(n);
    std::iota(draws.begin(), draws.end(), 0);
    std::vector<double> points;
    while (!draws.empty()) {
      points.clear();
      for (size_t i = 0; i < draws.size(); ++i) points.push_back(point(rng));
      const std::vector<size_t> places =
          Search(num_ranked_, draws.size(), [&](size_t place, size_t i) {
            return cumulative[place] <= points[i] - unranked;
          });
      size_t again = 0;
      for (size_t i = 0; i < draws.size(); ++i) {
        const size_t draw = draws[i];
        if (points[i] < unranked) {
          slots[draw] = unranked_[static_cast<size_t>(points[i])];
          masses[draw] = 1.0;
          continue;
        }
        // Rounding can put the point after the last place.
        const size_t place = std::min(places[i], num_ranked_ - 1);
        slots[draw] = SlotOf(ranking_[place]);
        masses[draw] = std::min(masses_[place], total);
        if (HasLeft(ranking_[place])) draws[again++] = draw;
      }
      draws.resize(again);
    }
    return true;
  }

  void Masses(const int32_t* slots, size_t n, double* masses) const override {
    std::vector<Ranked> ranked;
    for (size_t i = 0; i < n; ++i) {
      ranked.push_back(MakeRanked(items_[slots[i]].ranked, slots[i]));
    }
    const std::vector<size_t> places = Find(ranked);
    // Rounding must not put the mass of a single item above the total.
    const double total = total_mass();
    for (size_t i = 0; i < n; ++i) {
      masses[i] = items_[slots[i]].place == kRanked
                      ? std::min(masses_[places[i]], total)
                      : 1.0;
    }
  }

  double total_mass() const override {
    return static_cast<double>(num_unranked_) + mass_of_ranked();
  }

  void Save(Writer& writer, size_t num_slots) const override {
    writer.Array(items_.data(), num_slots);
    writer.Value(num_unranked_);
    writer.Array(unranked_.data(), num_unranked_);
    writer.Value(num_ranked_);
    writer.Array(ranking_.data(), num_ranked_);
    writer.Vector(left_);
    writer.Vector(changed_);
    writer.Value(updates_);
  }

  void Load(FileReader& file, size_t num_slots) override {
    file.Array(items_.data(), num_slots);
    num_unranked_ = file.Count(num_slots);
    file.Array(unranked_.data(), num_unranked_);
    num_ranked_ = file.Count(num_slots);
    file.Array(ranking_.data(), num_ranked_);
    file.Vector(left_);
    file.Vector(changed_);
    file.Value(updates_);
    // The same sums in the same order give the same bits.
    ExtendMasses();
    for (const size_t place : left_) {
      if (place >= num_ranked_) file.Refuse("an item has left no rank");
      mass_of_left_ += masses_[place];
    }
  }

  void CheckInvariants(const std::vector<int64_t>& keys) const override {
    Ensure(num_unranked_ + num_ranked_ - left_.size() == NumItems(keys),
           "rank_based: wrong number of items");
    for (size_t i = 0; i < num_unranked_; ++i) {
      Ensure(IsItem(keys, unranked_[i]) &&
                 items_[unranked_[i]].place == static_cast<int32_t>(i),
             "rank_based: place", i, " and its slot disagree");
    }
    std::vector<size_t> left;
    double mass = 0;
    for (size_t i = 0; i < num_ranked_; ++i) {
      Ensure(i == 0 || ranking_[i - 1] < ranking_[i], "rank_based: rank", i,
             " is out of order");
      if (HasLeft(ranking_[i])) {
        left.push_back(i);
        continue;
      }
      mass += masses_[i];
      const int32_t slot = SlotOf(ranking_[i]);
      Ensure(IsItem(keys, slot) && items_[slot].place == kRanked &&
                 MakeRanked(items_[slot].ranked, slot) == ranking_[i],
             "rank_based: rank", i, " and its slot disagree");
    }
    std::vector<size_t> places = left_;
    std::sort(places.begin(), places.end());
    Ensure(places == left, "rank_based: items that left miscounted");
    Ensure(std::abs(mass - mass_of_ranked()) <= 1e-9 * (1 + mass),
           "rank_based: wrong mass");
    for (const int32_t slot : changed_) {
      const bool is_slot = 0 <= slot && static_cast<size_t>(slot) < keys.size();
      Ensure(is_slot && (!items_[slot].has_changed || IsItem(keys, slot)),
             "rank_based: what is not an item has changed");
    }
    const bool is_due = updates_ < 0 || (updates_ > 0 && updates_ >= period_);
    Ensure(!is_due, "rank_based: a ranking is overdue");
  }

 private:
  // The place of an item that is ranked.
  static constexpr int32_t kRanked = -1;

  struct Item {
    float priority;  // The latest priority, used in the next ranking.
    float ranked;    // The priority in the current ranking, if the item is ranked.
    int32_t place;   // In unranked_, or kRanked.
    int32_t has_changed;  // 0 or 1; a bool read from a file may be neither.
  };

  // An item of the ranking, as a number by which it is sorted: the largest
  // priority first, then the smallest slot. The last bit is 1 if the item has left
  // the ranking since.
  using Ranked = uint64_t;
  static Ranked MakeRanked(float priority, int32_t slot) {
    // The bits of floats that are not negative are in the order of the floats.
    priority += 0.0f;  // Turns -0 into 0.
    uint32_t bits;
    std::memcpy(&bits, &priority, sizeof(bits));
    return uint64_t{~bits} << 32 | static_cast<uint32_t>(slot) << 1;
  }
  static int32_t SlotOf(Ranked ranked) {
    return static_cast<int32_t>(static_cast<uint32_t>(ranked) >> 1);
  }
  static bool HasLeft(Ranked ranked) { return ranked & 1; }

  // Returns how many items of the ranking come before each item in `wanted`.
  std::vector<size_t> Find(const std::vector<Ranked>& wanted) const {
    const Ranked* const ranking = ranking_.data();
    return Search(num_ranked_, wanted.size(), [&](size_t place, size_t i) {
      return ranking[place] < wanted[i];
    });
  }

  void Change(int32_t slot, float priority) {
    Item& item = items_[slot];
    item.priority = priority;
    if (!item.has_changed) changed_.push_back(slot);
    item.has_changed = 1;
  }

  void AddUnranked(int32_t slot) {
    items_[slot].place = static_cast<int32_t>(num_unranked_);
    unranked_[num_unranked_++] = slot;
  }

  void RemoveUnranked(int32_t slot) {
    const int32_t last = unranked_[--num_unranked_];
    unranked_[items_[slot].place] = last;
    items_[last].place = items_[slot].place;
    items_[slot].place = kRanked;
  }

  void RankAnew() {
    std::vector<Ranked> entering, reranked;
    for (const int32_t slot : changed_) {
      Item& item = items_[slot];
      // Erased since, or handled already.
      if (!item.has_changed) continue;
      item.has_changed = 0;
      const bool is_known = item.priority != kUnknownPriority;
      if (item.place == kRanked) {
        reranked.push_back(MakeRanked(item.ranked, slot));
        if (!is_known) AddUnranked(slot);
      } else if (is_known) {
        RemoveUnranked(slot);
      }
      item.ranked = item.priority;
      if (is_known) entering.push_back(MakeRanked(item.priority, slot));
    }
    for (const size_t place : Find(reranked)) ranking_[place] |= 1;
    std::sort(entering.begin(), entering.end());
    Ranked* const ranking = ranking_.data();
    Ranked* const end = std::remove_if(ranking, ranking + num_ranked_, HasLeft);
    num_ranked_ = std::merge(ranking, end, entering.begin(), entering.end(),
                             next_.data()) -
                  next_.data();
    std::swap(ranking_, next_);
    ExtendMasses();
    left_.clear();
    changed_.clear();
    mass_of_left_ = 0;
    updates_ = 0;
  }

  // Computes the masses of all ranks of the ranking.
  void ExtendMasses() {
    for (; num_masses_ < num_ranked_; ++num_masses_) {
      const double mass = std::pow(num_masses_ + 1.0, -exponent_);
      masses_[num_masses_] = mass;
      cumulative_[num_masses_ + 1] = cumulative_[num_masses_] + mass;
    }
  }

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
  size_t num_ranked_ = 0;  // Including items that have left.
  std::vector<size_t> left_;  // Places in the ranking whose items have left.
  double mass_of_left_ = 0;
  std::vector<int32_t> changed_;  // Slots; some may have been erased since.
  int64_t updates_ = 0;           // Since the last ranking.
  LazyArray<double> masses_;      // By rank, from 0.
  LazyArray<double> cumulative_;  // By rank: the sum of all masses before it.
  size_t num_masses_ = 0;
};

}  // namespace replay
