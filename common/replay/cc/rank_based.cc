#include "rank_based.h"

#include <algorithm>
#include <cmath>

namespace replay {

RankBased::RankBased(size_t max_slots, double exponent, int64_t period)
    : exponent_(exponent),
      period_(period),
      items_(max_slots),
      unranked_(max_slots),
      ranks_(max_slots),
      next_(max_slots),
      masses_(max_slots),
      cumulative_(max_slots + 1) {}

void RankBased::Insert(const int32_t* slots, const int64_t*,
                       const float* priorities, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    items_[slots[i]] = {kUnknownPriority, 0.0f, kRanked, false};
    AddUnranked(slots[i]);
    if (priorities[i] != kUnknownPriority) Change(slots[i], priorities[i]);
  }
  // Without updates the list of changes would grow for ever.
  if (changed_.size() > 2 * (num_unranked_ + num_ranked_)) RankAnew();
}

void RankBased::Update(const int32_t* slots, const float* priorities,
                       size_t n) {
  for (size_t i = 0; i < n; ++i) Change(slots[i], priorities[i]);
  if (++updates_ >= period_) RankAnew();
}

void RankBased::Erase(const int32_t* slots, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    Item& item = items_[slots[i]];
    item.has_changed = false;
    if (item.place != kRanked) {
      RemoveUnranked(slots[i]);
      continue;
    }
    const size_t rank = FindRank(slots[i]);
    ranks_[rank].slot = ~slots[i];
    left_.push_back(rank);
    mass_of_left_ += masses_[rank];
  }
  // Keeps draws from meeting too many ranks without an item.
  if (2 * left_.size() > num_ranked_) RankAnew();
}

bool RankBased::Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
                       double* masses) const {
  if (num_unranked_ + num_ranked_ == left_.size()) return false;
  const double unranked = static_cast<double>(num_unranked_);
  const double* const cumulative = cumulative_.data() + 1;
  std::uniform_real_distribution<double> point(
      0.0, unranked + cumulative_[num_ranked_]);
  for (size_t i = 0; i < n; ++i) {
    do {
      const double at = point(rng);
      if (at < unranked) {
        slots[i] = unranked_[static_cast<size_t>(at)];
        masses[i] = 1.0;
        continue;
      }
      // Rounding can put the point after the last rank.
      const size_t rank = std::min<size_t>(
          std::upper_bound(cumulative, cumulative + num_ranked_,
                           at - unranked) - cumulative,
          num_ranked_ - 1);
      slots[i] = ranks_[rank].slot;
      masses[i] = masses_[rank];
    } while (slots[i] < 0);
  }
  return true;
}

void RankBased::Masses(const int32_t* slots, size_t n, double* masses) const {
  for (size_t i = 0; i < n; ++i) {
    masses[i] = items_[slots[i]].place == kRanked ? masses_[FindRank(slots[i])]
                                                  : 1.0;
  }
}

double RankBased::total_mass() const {
  return static_cast<double>(num_unranked_) + mass_of_ranked();
}

size_t RankBased::FindRank(int32_t slot) const {
  const Rank* const ranks = ranks_.data();
  return std::lower_bound(ranks, ranks + num_ranked_,
                          Rank{items_[slot].ranked, slot}, Before) - ranks;
}

void RankBased::Change(int32_t slot, float priority) {
  Item& item = items_[slot];
  item.priority = priority;
  if (!item.has_changed) changed_.push_back(slot);
  item.has_changed = true;
}

void RankBased::AddUnranked(int32_t slot) {
  items_[slot].place = static_cast<int32_t>(num_unranked_);
  unranked_[num_unranked_++] = slot;
}

void RankBased::RemoveUnranked(int32_t slot) {
  const int32_t last = unranked_[--num_unranked_];
  unranked_[items_[slot].place] = last;
  items_[last].place = items_[slot].place;
  items_[slot].place = kRanked;
}

void RankBased::RankAnew() {
  std::vector<Rank> entering;
  std::vector<size_t> leaving = std::move(left_);
  for (const int32_t slot : changed_) {
    Item& item = items_[slot];
    // The slot is empty, or was so, and occurs again.
    if (!item.has_changed) continue;
    item.has_changed = false;
    const bool is_known = item.priority != kUnknownPriority;
    if (item.place == kRanked) {
      leaving.push_back(FindRank(slot));
      if (!is_known) AddUnranked(slot);
    } else if (is_known) {
      RemoveUnranked(slot);
    }
    item.ranked = item.priority;
    if (is_known) entering.push_back({item.priority, slot});
  }
  std::sort(leaving.begin(), leaving.end());
  std::sort(entering.begin(), entering.end(), Before);

  const Rank* const ranks = ranks_.data();
  const Rank* from = ranks;
  Rank* to = next_.data();
  auto leaves = leaving.begin();
  const auto copy_until = [&](const Rank* end) {
    for (; leaves != leaving.end() && ranks + *leaves < end; ++leaves) {
      to = std::copy(from, ranks + *leaves, to);
      from = ranks + *leaves + 1;
    }
    to = std::copy(from, end, to);
    from = end;
  };
  const Rank* const end = ranks + num_ranked_;
  for (const Rank& rank : entering) {
    copy_until(std::lower_bound(from, end, rank, Before));
    *to++ = rank;
  }
  copy_until(end);
  num_ranked_ = to - next_.data();
  ranks_.swap(next_);
  for (; num_masses_ < num_ranked_; ++num_masses_) {
    const double mass = std::pow(num_masses_ + 1.0, -exponent_);
    masses_[num_masses_] = mass;
    cumulative_[num_masses_ + 1] = cumulative_[num_masses_] + mass;
  }
  left_.clear();
  changed_.clear();
  mass_of_left_ = 0;
  updates_ = 0;
}

std::string RankBased::CheckInvariants(size_t count) const {
  if (num_unranked_ + num_ranked_ - left_.size() != count) {
    return "rank_based: wrong number of items";
  }
  for (size_t i = 0; i < num_unranked_; ++i) {
    if (items_[unranked_[i]].place != static_cast<int32_t>(i)) {
      return "rank_based: slot and place disagree at " + std::to_string(i);
    }
  }
  size_t num_left = 0;
  double mass = 0;
  for (size_t i = 0; i < num_ranked_; ++i) {
    if (i > 0 && !Before(ranks_[i - 1], ranks_[i])) {
      return "rank_based: rank " + std::to_string(i) + " is out of order";
    }
    const int32_t slot = ranks_[i].slot;
    if (slot < 0) {
      ++num_left;
      continue;
    }
    mass += masses_[i];
    if (items_[slot].place != kRanked ||
        items_[slot].ranked != ranks_[i].priority) {
      return "rank_based: slot and rank disagree at " + std::to_string(i);
    }
  }
  if (num_left != left_.size()) return "rank_based: ranks that left miscounted";
  if (std::abs(mass - mass_of_ranked()) > 1e-9 * (1 + mass)) {
    return "rank_based: wrong mass";
  }
  return "";
}

}  // namespace replay
