#include "rank_based.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace replay {
namespace {

// Returns, for each i below n, how many of `count` sorted elements come before
// i: is_before(element, i). All searches go on together and without branches, so
// that their cache misses overlap.
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

}  // namespace

RankBased::RankBased(size_t max_slots, double exponent, int64_t period)
    : exponent_(exponent),
      period_(period),
      items_(max_slots),
      unranked_(max_slots),
      ranking_(max_slots),
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
  std::vector<Ranked> leaving;
  for (size_t i = 0; i < n; ++i) {
    Item& item = items_[slots[i]];
    item.has_changed = false;
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
  // Keeps draws from meeting more places without an item than with one.
  if (2 * mass_of_left_ > cumulative_[num_ranked_]) RankAnew();
}

bool RankBased::Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
                       double* masses) const {
  if (num_unranked_ + num_ranked_ == left_.size()) return false;
  const double unranked = static_cast<double>(num_unranked_);
  const double* const cumulative = cumulative_.data() + 1;
  std::uniform_real_distribution<double> point(
      0.0, unranked + cumulative_[num_ranked_]);
  const double total = total_mass();
  // The draws to make; those of items that have left are made again.
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

void RankBased::Masses(const int32_t* slots, size_t n, double* masses) const {
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < n; ++i) {
    ranked.push_back(MakeRanked(items_[slots[i]].ranked, slots[i]));
  }
  const std::vector<size_t> places = Find(ranked);
  // Rounding must not put the mass of an only item above the total.
  const double total = total_mass();
  for (size_t i = 0; i < n; ++i) {
    masses[i] = items_[slots[i]].place == kRanked
                    ? std::min(masses_[places[i]], total)
                    : 1.0;
  }
}

double RankBased::total_mass() const {
  return static_cast<double>(num_unranked_) + mass_of_ranked();
}

RankBased::Ranked RankBased::MakeRanked(float priority, int32_t slot) {
  // The bits of floats that are not negative are in the order of the floats.
  priority += 0.0f;  // Makes 0 of -0.
  uint32_t bits;
  std::memcpy(&bits, &priority, sizeof(bits));
  return static_cast<uint64_t>(~bits) << 32 | static_cast<uint32_t>(slot) << 1;
}

std::vector<size_t> RankBased::Find(const std::vector<Ranked>& wanted) const {
  const Ranked* const ranking = ranking_.data();
  return Search(num_ranked_, wanted.size(), [&](size_t place, size_t i) {
    return ranking[place] < wanted[i];
  });
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
  std::vector<Ranked> entering, reranked;
  for (const int32_t slot : changed_) {
    Item& item = items_[slot];
    // Erased since, or met before.
    if (!item.has_changed) continue;
    item.has_changed = false;
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
  std::vector<size_t> leaving = Find(reranked);
  leaving.insert(leaving.end(), left_.begin(), left_.end());
  std::sort(leaving.begin(), leaving.end());
  std::sort(entering.begin(), entering.end());
  const std::vector<size_t> enters_at = Find(entering);

  size_t from = 0;
  Ranked* to = next_.data();
  auto leaves = leaving.begin();
  const auto copy_until = [&](size_t end) {
    const Ranked* const ranking = ranking_.data();
    for (; leaves != leaving.end() && *leaves < end; ++leaves) {
      to = std::copy(ranking + from, ranking + *leaves, to);
      from = *leaves + 1;
    }
    to = std::copy(ranking + from, ranking + end, to);
    from = end;
  };
  for (size_t i = 0; i < entering.size(); ++i) {
    copy_until(enters_at[i]);
    *to++ = entering[i];
  }
  copy_until(num_ranked_);
  num_ranked_ = to - next_.data();
  ranking_.swap(next_);
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

void RankBased::Save(Writer& writer, size_t num_slots) const {
  writer.Array(items_.data(), num_slots);
  writer.Value(num_unranked_);
  writer.Array(unranked_.data(), num_unranked_);
  writer.Value(num_ranked_);
  writer.Array(ranking_.data(), num_ranked_);
  writer.Vector(left_);
  writer.Value(mass_of_left_);
  writer.Vector(changed_);
  writer.Value(updates_);
  writer.Value(num_masses_);
  writer.Array(masses_.data(), num_masses_);
}

void RankBased::Load(Reader& reader, size_t num_slots) {
  reader.Array(items_.data(), num_slots);
  num_unranked_ = reader.Count(num_slots);
  reader.Array(unranked_.data(), num_unranked_);
  num_ranked_ = reader.Count(num_slots);
  reader.Array(ranking_.data(), num_ranked_);
  reader.Vector(left_);
  reader.Value(mass_of_left_);
  reader.Vector(changed_);
  reader.Value(updates_);
  num_masses_ = reader.Count(num_slots);
  reader.Array(masses_.data(), num_masses_);
  // The same sums in the same order give the same bits.
  for (size_t rank = 0; rank < num_masses_; ++rank) {
    cumulative_[rank + 1] = cumulative_[rank] + masses_[rank];
  }
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
    if (i > 0 && ranking_[i - 1] >= ranking_[i]) {
      return "rank_based: place " + std::to_string(i) + " is out of order";
    }
    if (HasLeft(ranking_[i])) {
      ++num_left;
      continue;
    }
    mass += masses_[i];
    const int32_t slot = SlotOf(ranking_[i]);
    if (items_[slot].place != kRanked ||
        MakeRanked(items_[slot].ranked, slot) != ranking_[i]) {
      return "rank_based: slot and ranking disagree at " + std::to_string(i);
    }
  }
  if (num_left != left_.size()) return "rank_based: items that left miscounted";
  if (std::abs(mass - mass_of_ranked()) > 1e-9 * (1 + mass)) {
    return "rank_based: wrong mass";
  }
  return "";
}

}  // namespace replay
