#include "memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

namespace replay {
namespace {

// Slots beyond the capacity, for removed steps that are still being read.
// They cost address space only until they are used.
size_t MaxSlots(size_t capacity) { return capacity + capacity / 16 + 65536; }

}  // namespace

Memory::Memory(size_t capacity, std::vector<size_t> column_bytes,
               const std::vector<DistributionSpec>& distributions,
               size_t removal, uint64_t seed)
    : capacity_(capacity),
      max_slots_(MaxSlots(capacity)),
      column_bytes_(std::move(column_bytes)),
      row_bytes_(std::accumulate(column_bytes_.begin(), column_bytes_.end(),
                                 size_t{0})),
      rows_(max_slots_ * row_bytes_),
      slots_(max_slots_),
      index_(capacity, slots_),
      removal_(removal),
      rng_(seed != 0 ? seed : std::random_device()()) {
  for (const DistributionSpec& spec : distributions) {
    distributions_.push_back(MakeDistribution(spec, max_slots_));
  }
}

Memory::Outcome Memory::Insert(const Steps& steps, const Items& items) {
  std::vector<int32_t> slots(steps.n, kNone);
  size_t reserved = 0;
  {
    std::lock_guard<FairMutex> lock(mutex_);
    for (size_t i = 0; i < steps.n; ++i) index_.Prefetch(steps.keys[i]);
    std::vector<size_t> fresh;
    fresh.reserve(steps.n);
    for (size_t i = 0; i < steps.n; ++i) {
      if (index_.Find(steps.keys[i]) == KeyIndex::kAbsent) fresh.push_back(i);
    }
    std::vector<int32_t> taken(fresh.size());
    if (!Reserve(fresh.size(), taken.data())) return Outcome::kNoRoom;
    for (size_t i = 0; i < fresh.size(); ++i) slots[fresh[i]] = taken[i];
    reserved = fresh.size();
  }
  for (size_t i = 0; i < steps.n; ++i) {
    if (slots[i] != kNone) WriteRow(slots[i], steps, i);
  }

  std::lock_guard<FairMutex> lock(mutex_);
  reserved_ -= reserved;
  for (size_t i = 0; i < steps.n; ++i) {
    const int64_t key = steps.keys[i];
    if (slots[i] != kNone && index_.Find(key) == KeyIndex::kAbsent) {
      slots_[slots[i]].key = key;
      index_.Insert(key, slots[i]);
      continue;
    }
    // Known before, or added meanwhile by another call or by this one.
    if (slots[i] != kNone) Release(slots[i]);
    slots[i] = kNone;
    ++statistics_.duplicates;
  }

  std::vector<int32_t> first;
  std::vector<float> priorities;
  first.reserve(items.n);
  priorities.reserve(items.n);
  for (size_t i = 0; i < items.n; ++i) {
    const int32_t slot = index_.Find(items.keys[i]);
    if (slot != KeyIndex::kAbsent && slots_[slot].length != 0) continue;
    const int32_t length = items.lengths == nullptr ? 1 : items.lengths[i];
    if (slot == KeyIndex::kAbsent || !AddView(slot, length)) {
      ++statistics_.incomplete;
      continue;
    }
    first.push_back(slot);
    priorities.push_back(items.priorities[i]);
  }
  for (auto& distribution : distributions_) {
    distribution->Insert(first.data(), priorities.data(), first.size());
  }
  statistics_.items += first.size();
  statistics_.inserted += first.size();

  for (const int32_t slot : slots) {
    if (slot == kNone || slots_[slot].views != 0) continue;
    DropStep(slot);
    ++statistics_.unviewed;
  }
  return Outcome::kOk;
}

Memory::Outcome Memory::Sample(size_t distribution, size_t n, size_t length,
                               uint64_t seed, int64_t* keys, double* masses,
                               int32_t* lengths, double* total_mass,
                               int64_t* count,
                               const std::vector<char*>& columns) {
  std::optional<std::mt19937_64> own;
  if (seed != 0) own.emplace(seed);
  std::vector<int32_t> first(n);
  std::vector<int32_t> slots(n * length, kNone);
  {
    std::lock_guard<FairMutex> lock(mutex_);
    const Distribution& from = *distributions_[distribution];
    if (!from.Sample(n, own ? *own : rng_, first.data(), masses)) {
      return Outcome::kNothingToSample;
    }
    *total_mass = from.total_mass();
    *count = statistics_.items;
    statistics_.sampled += n;
    for (const int32_t slot : first) __builtin_prefetch(&slots_[slot], 1);
    for (size_t i = 0; i < n; ++i) {
      Slot& slot = slots_[first[i]];
      keys[i] = slot.key;
      lengths[i] = slot.length;
      ++slot.pins;
      slots[i * length] = first[i];
      const size_t known = std::min<size_t>(length, lengths[i]);
      for (size_t t = 1; t < known; ++t) {
        const int32_t step = index_.Find(keys[i] + t);
        ++slots_[step].pins;
        slots[i * length + t] = step;
      }
    }
  }
  CopyRows(slots, columns);
  std::lock_guard<FairMutex> lock(mutex_);
  Unpin(slots);
  return Outcome::kOk;
}

void Memory::Read(const int64_t* keys, size_t n, bool* found,
                  const std::vector<char*>& columns) {
  std::vector<int32_t> slots(n);
  {
    std::lock_guard<FairMutex> lock(mutex_);
    for (size_t i = 0; i < n; ++i) {
      slots[i] = index_.Find(keys[i]);
      found[i] = slots[i] != KeyIndex::kAbsent;
      if (found[i]) ++slots_[slots[i]].pins;
    }
  }
  CopyRows(slots, columns);
  std::lock_guard<FairMutex> lock(mutex_);
  Unpin(slots);
}

int64_t Memory::UpdatePriorities(const int64_t* keys, const float* priorities,
                                 size_t n) {
  std::vector<int32_t> slots;
  std::vector<float> present;
  slots.reserve(n);
  present.reserve(n);
  std::lock_guard<FairMutex> lock(mutex_);
  for (size_t i = 0; i < n; ++i) index_.Prefetch(keys[i]);
  for (size_t i = 0; i < n; ++i) {
    const int32_t slot = index_.Find(keys[i]);
    if (slot == KeyIndex::kAbsent || slots_[slot].length == 0) continue;
    slots.push_back(slot);
    present.push_back(priorities[i]);
  }
  for (auto& distribution : distributions_) {
    distribution->Update(slots.data(), present.data(), slots.size());
  }
  const int64_t missing = static_cast<int64_t>(n - slots.size());
  statistics_.updated += slots.size();
  statistics_.missing += missing;
  return missing;
}

Memory::Statistics Memory::statistics() const {
  std::lock_guard<FairMutex> lock(mutex_);
  Statistics statistics = statistics_;
  statistics.steps = static_cast<int64_t>(index_.size());
  return statistics;
}

bool Memory::MakeRoom(size_t n) {
  std::vector<int32_t> removed;
  bool enough = true;
  while (index_.size() + reserved_ + n > capacity_) {
    int32_t slot;
    double mass;
    if (!distributions_[removal_]->Sample(1, rng_, &slot, &mass)) {
      enough = false;
      break;
    }
    distributions_[removal_]->Erase(&slot, 1);
    removed.push_back(slot);
    const int64_t key = slots_[slot].key;
    const int32_t length = std::exchange(slots_[slot].length, 0);
    for (int32_t t = 0; t < length; ++t) {
      const int32_t step = t == 0 ? slot : index_.Find(key + t);
      if (--slots_[step].views == 0) DropStep(step);
    }
  }
  for (size_t d = 0; d < distributions_.size(); ++d) {
    if (d != removal_) distributions_[d]->Erase(removed.data(), removed.size());
  }
  statistics_.items -= removed.size();
  statistics_.removed += removed.size();
  return enough;
}

bool Memory::Reserve(size_t n, int32_t* slots) {
  // What others are writing cannot be removed: do not empty the memory for it.
  if (reserved_ + n > capacity_) return false;
  if (!MakeRoom(n)) return false;
  if (free_.size() + (max_slots_ - next_unused_) < n) return false;
  for (size_t i = 0; i < n; ++i) {
    if (free_.empty()) {
      slots[i] = static_cast<int32_t>(next_unused_++);
    } else {
      slots[i] = free_.back();
      free_.pop_back();
    }
  }
  reserved_ += n;
  return true;
}

bool Memory::AddView(int32_t first, int32_t length) {
  const int64_t key = slots_[first].key;
  for (int32_t t = 1; t < length; ++t) {
    if (index_.Find(key + t) == KeyIndex::kAbsent) return false;
  }
  ++slots_[first].views;
  for (int32_t t = 1; t < length; ++t) ++slots_[index_.Find(key + t)].views;
  slots_[first].length = length;
  return true;
}

void Memory::DropStep(int32_t slot) {
  index_.Erase(slots_[slot].key);
  if (slots_[slot].pins == 0) Release(slot);
}

void Memory::Unpin(const std::vector<int32_t>& slots) {
  for (const int32_t slot : slots) {
    if (slot != kNone && --slots_[slot].pins == 0 && slots_[slot].views == 0) {
      Release(slot);
    }
  }
}

void Memory::WriteRow(int32_t slot, const Steps& steps, size_t step) {
  char* row = rows_.data() + slot * row_bytes_;
  for (size_t c = 0; c < column_bytes_.size(); ++c) {
    std::memcpy(row, steps.columns[c] + step * column_bytes_[c],
                column_bytes_[c]);
    row += column_bytes_[c];
  }
}

void Memory::CopyRows(const std::vector<int32_t>& slots,
                      const std::vector<char*>& columns) const {
  // Rows lie anywhere, so their misses are what copying costs. They overlap
  // best when a block that fits the second-level cache is asked for at once.
  constexpr size_t kBlockBytes = 256 << 10, kLine = 64;
  const size_t block = std::max<size_t>(1, kBlockBytes / (row_bytes_ + kLine));
  for (size_t begin = 0; begin < slots.size(); begin += block) {
    const size_t end = std::min(slots.size(), begin + block);
    for (size_t i = begin; i < end; ++i) {
      if (slots[i] == kNone) continue;
      const char* row = rows_.data() + slots[i] * row_bytes_;
      // To the line of the last byte, wherever the row begins in its first.
      for (size_t b = 0; b < row_bytes_ + kLine - 1; b += kLine) {
        __builtin_prefetch(row + b, 0, 2);
      }
    }
    for (size_t i = begin; i < end; ++i) CopyRow(slots[i], i, columns);
  }
}

void Memory::CopyRow(int32_t slot, size_t i,
                     const std::vector<char*>& columns) const {
  const char* row =
      slot == kNone ? nullptr : rows_.data() + slot * row_bytes_;
  for (size_t c = 0; c < column_bytes_.size(); ++c) {
    char* to = columns[c] + i * column_bytes_[c];
    if (row == nullptr) {
      std::memset(to, 0, column_bytes_[c]);
    } else {
      std::memcpy(to, row, column_bytes_[c]);
      row += column_bytes_[c];
    }
  }
}

std::string Memory::CheckInvariants() const {
  std::lock_guard<FairMutex> lock(mutex_);
  std::string wrong = index_.CheckInvariants();
  if (!wrong.empty()) return wrong;
  for (const auto& distribution : distributions_) {
    wrong = distribution->CheckInvariants(statistics_.items);
    if (!wrong.empty()) return wrong;
  }
  std::vector<char> is_free(next_unused_, 0);
  for (const int32_t slot : free_) {
    if (is_free[slot]) return "slot " + std::to_string(slot) + " is free twice";
    is_free[slot] = 1;
  }
  size_t items = 0, stored = 0, read_only = 0;
  int64_t views = 0, viewed = 0;
  for (size_t slot = 0; slot < next_unused_; ++slot) {
    const bool live = slots_[slot].views > 0;
    if (live && is_free[slot]) {
      return "slot " + std::to_string(slot) + " is free and in use";
    }
    if (live && index_.Find(slots_[slot].key) != static_cast<int32_t>(slot)) {
      return "slot " + std::to_string(slot) + " is not under its key";
    }
    stored += live;
    read_only += !live && slots_[slot].pins > 0;
    items += slots_[slot].length > 0;
    views += slots_[slot].views;
    viewed += slots_[slot].length;
  }
  if (stored != index_.size()) return "a stored step has no view";
  if (items != static_cast<size_t>(statistics_.items)) return "items miscounted";
  if (views != viewed) return "views and lengths disagree";
  if (free_.size() + stored + read_only + reserved_ != next_unused_) {
    return "a slot is lost";
  }
  if (stored + reserved_ > capacity_) return "more steps than the capacity";
  return "";
}

}  // namespace replay
