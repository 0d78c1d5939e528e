#include "memory.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace replay {
namespace {

// Returns the number of slots: the capacity, and extra slots for removed steps that
// are still being read. Until they are used, these take only address space.
size_t MaxSlots(size_t capacity) { return capacity + capacity / 16 + 65536; }

}  // namespace

Memory::Memory(size_t capacity, size_t hard_capacity,
               std::vector<size_t> column_bytes,
               const std::vector<DistributionSpec>& distributions,
               size_t removal, uint64_t seed)
    : capacity_(capacity),
      hard_capacity_(hard_capacity),
      rows_(MaxSlots(hard_capacity), std::move(column_bytes)),
      slots_(rows_.max_slots()),
      index_(hard_capacity, slots_),
      removal_(removal),
      rng_(seed != 0 ? seed : std::random_device()()) {
  for (const DistributionSpec& spec : distributions) {
    distributions_.push_back(MakeDistribution(spec, rows_.max_slots()));
  }
}

bool Memory::Insert(const Steps& steps, const Items& items) {
  std::vector<size_t> fresh;   // The steps whose keys are not stored.
  std::vector<int32_t> slots;  // The slots of these steps.
  fresh.reserve(steps.n);
  slots.reserve(steps.n);
  {
    std::lock_guard<FairMutex> lock(mutex_);
    for (size_t i = 0; i < steps.n; ++i) index_.Prefetch(steps.keys[i]);
    for (size_t i = 0; i < steps.n; ++i) {
      if (index_.Find(steps.keys[i]) == kNoSlot) fresh.push_back(i);
    }
    if (!Reserve(fresh.size(), &slots)) return false;
  }
  for (size_t k = 0; k < fresh.size(); ++k) {
    rows_.Write(slots[k], steps.columns, fresh[k]);
  }

  std::lock_guard<FairMutex> lock(mutex_);
  reserved_ -= fresh.size();
  statistics_.duplicates += steps.n - fresh.size();
  for (size_t k = 0; k < fresh.size(); ++k) {
    const int64_t key = steps.keys[fresh[k]];
    if (index_.Find(key) == kNoSlot) {
      slots_[slots[k]].key = key;
      index_.Insert(key, slots[k]);
      continue;
    }
    // Another row of this call, or another call, has already added the key.
    rows_.Release(std::exchange(slots[k], kNoSlot));
    ++statistics_.duplicates;
  }

  std::vector<int32_t> first;
  std::vector<int64_t> keys;
  std::vector<float> priorities;
  first.reserve(items.n);
  keys.reserve(items.n);
  priorities.reserve(items.n);
  for (size_t i = 0; i < items.n; ++i) {
    const int32_t slot = index_.Find(items.keys[i]);
    if (slot != kNoSlot && slots_[slot].length != 0) continue;
    const int32_t length = items.lengths == nullptr ? 1 : items.lengths[i];
    if (slot == kNoSlot || !AddView(slot, length)) {
      ++statistics_.incomplete;
      continue;
    }
    first.push_back(slot);
    keys.push_back(items.keys[i]);
    priorities.push_back(items.priorities[i]);
  }
  for (auto& distribution : distributions_) {
    distribution->Insert(first.data(), keys.data(), priorities.data(),
                         first.size());
  }
  statistics_.items += first.size();
  statistics_.inserted += first.size();

  for (const int32_t slot : slots) {
    if (slot == kNoSlot || slots_[slot].views != 0) continue;
    DropStep(slot);
    ++statistics_.unviewed;
  }
  return true;
}

bool Memory::Sample(size_t distribution, size_t n, size_t length, uint64_t seed,
                    int64_t* keys, double* masses, int32_t* lengths,
                    double* total_mass, int64_t* count,
                    const std::vector<ColumnTarget>& columns) {
  std::optional<std::mt19937_64> own;
  if (seed != 0) own.emplace(seed);
  std::vector<int32_t> first(n);
  std::vector<int32_t> slots(n * length, kNoSlot);
  {
    std::lock_guard<FairMutex> lock(mutex_);
    const Distribution& from = *distributions_[distribution];
    if (!from.Sample(n, own ? *own : rng_, first.data(), masses)) return false;
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
  rows_.Copy(slots, columns);
  std::lock_guard<FairMutex> lock(mutex_);
  Unpin(slots);
  return true;
}

void Memory::Read(const int64_t* keys, size_t n, bool* found,
                  const std::vector<ColumnTarget>& columns) {
  std::vector<int32_t> slots(n);
  {
    std::lock_guard<FairMutex> lock(mutex_);
    for (size_t i = 0; i < n; ++i) {
      slots[i] = index_.Find(keys[i]);
      found[i] = slots[i] != kNoSlot;
      if (found[i]) ++slots_[slots[i]].pins;
    }
  }
  rows_.Copy(slots, columns);
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
    if (slot == kNoSlot || slots_[slot].length == 0) continue;
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

int64_t Memory::RemoveToFit() {
  int64_t removed = 0;
  // Removes only the initial excess, since adders may be as fast as this loop.
  for (size_t left = std::numeric_limits<size_t>::max(); left > 0;) {
    std::lock_guard<FairMutex> lock(mutex_);
    const size_t steps = index_.size();
    left = std::min(left, steps - std::min(steps, capacity_));
    const size_t items = RemoveDownTo(steps - left, kRemovedAtOnce);
    if (items == 0) break;
    removed += items;
    left -= std::min(left, steps - index_.size());
  }
  return removed;
}

void Memory::Masses(size_t distribution, const int64_t* keys, size_t n,
                    bool* found, double* masses, double* total_mass,
                    int64_t* count) const {
  std::lock_guard<FairMutex> lock(mutex_);
  *total_mass = distributions_[distribution]->total_mass();
  *count = statistics_.items;
  for (size_t i = 0; i < n; ++i) index_.Prefetch(keys[i]);
  for (size_t i = 0; i < n; ++i) {
    const int32_t slot = index_.Find(keys[i]);
    found[i] = slot != kNoSlot && slots_[slot].length != 0;
    masses[i] = 0;
    if (found[i]) distributions_[distribution]->Masses(&slot, 1, &masses[i]);
  }
}

Memory::Statistics Memory::statistics() const {
  std::lock_guard<FairMutex> lock(mutex_);
  Statistics statistics = statistics_;
  statistics.steps = static_cast<int64_t>(index_.size());
  statistics.held_bytes = rows_.held_bytes();
  return statistics;
}

size_t Memory::RemoveDownTo(size_t steps, size_t most) {
  std::vector<int32_t> removed;
  while (index_.size() > steps && removed.size() < most) {
    int32_t slot;
    double mass;
    if (!distributions_[removal_]->Sample(1, rng_, &slot, &mass)) break;
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
  return removed.size();
}

bool Memory::Reserve(size_t n, std::vector<int32_t>* slots) {
  // Steps that other calls are writing cannot be removed. Give up at once instead
  // of emptying the memory.
  if (reserved_ + n > hard_capacity_) return false;
  const size_t steps = hard_capacity_ - reserved_ - n;
  RemoveDownTo(steps, std::numeric_limits<size_t>::max());
  if (index_.size() > steps || !rows_.Take(n, slots)) return false;
  reserved_ += n;
  return true;
}

bool Memory::AddView(int32_t first, int32_t length) {
  const int64_t key = slots_[first].key;
  for (int32_t t = 1; t < length; ++t) {
    if (index_.Find(key + t) == kNoSlot) return false;
  }
  ++slots_[first].views;
  for (int32_t t = 1; t < length; ++t) ++slots_[index_.Find(key + t)].views;
  slots_[first].length = length;
  return true;
}

void Memory::DropStep(int32_t slot) {
  index_.Erase(slots_[slot].key);
  if (slots_[slot].pins == 0) rows_.Release(slot);
}

void Memory::Unpin(const std::vector<int32_t>& slots) {
  for (const int32_t slot : slots) {
    if (slot == kNoSlot) continue;
    if (--slots_[slot].pins == 0 && slots_[slot].views == 0) {
      rows_.Release(slot);
    }
  }
}

void Memory::Save(FileWriter& file) {
  rows_.Save(file, mutex_, [&](Writer& writer) {
    writer.Value(rows_.num_slots());
    writer.Array(slots_.data(), rows_.num_slots());
    writer.Vector(rows_.free_slots());
    writer.Value(rng_);
    writer.Value(statistics_);
    for (const auto& distribution : distributions_) {
      distribution->Save(writer, rows_.num_slots());
    }
    return IsStored();
  });
}

void Memory::Load(FileReader& file) {
  rows_.LoadNumSlots(file);
  file.Array(slots_.data(), rows_.num_slots());
  rows_.LoadFreeSlots(file);
  file.Generator(rng_);
  file.Value(statistics_);
  for (const auto& distribution : distributions_) {
    distribution->Load(file, rows_.num_slots());
  }
  for (size_t slot = 0; slot < rows_.num_slots(); ++slot) {
    slots_[slot].pins = 0;
    if (slots_[slot].views <= 0) continue;
    if (index_.size() == hard_capacity_) file.Refuse("it has too many steps");
    index_.Insert(slots_[slot].key, static_cast<int32_t>(slot));
  }
  rows_.Load(file, IsStored());
  file.RequireInvariants([this] { CheckInvariants(); });
}

std::vector<bool> Memory::IsStored() const {
  std::vector<bool> is_stored(rows_.num_slots());
  for (size_t slot = 0; slot < is_stored.size(); ++slot) {
    is_stored[slot] = slots_[slot].views > 0;
  }
  return is_stored;
}

void Memory::CheckInvariants() const {
  std::lock_guard<FairMutex> lock(mutex_);
  index_.CheckInvariants();
  const size_t num_slots = rows_.num_slots();
  std::vector<bool> is_free(num_slots);
  std::vector<int64_t> keys(num_slots, kNoItem);  // Keys of items.
  for (const int32_t slot : rows_.free_slots()) {
    Ensure(!is_free[slot], "slot", slot, " is free twice");
    is_free[slot] = true;
  }
  size_t stored = 0, read_only = 0;
  for (size_t slot = 0; slot < num_slots; ++slot) {
    const Slot& step = slots_[slot];
    const auto ensure = [&](bool holds, const char* broken) {
      Ensure(holds, "slot", slot, broken);
    };
    const bool live = step.views > 0;
    ensure(!live || !is_free[slot], " is free and in use");
    ensure(!live || index_.Find(step.key) == static_cast<int32_t>(slot),
           " is not under its key");
    ensure(step.views >= 0 && step.length >= 0 && (step.length == 0 || live) &&
               (!live || step.key >= 0),
           " has a wrong number");
    if (step.length > 0) keys[slot] = step.key;
    stored += live;
    read_only += !live && step.pins > 0;
  }
  const size_t num_free = rows_.free_slots().size();
  Ensure(stored == index_.size(), "a stored step has no view");
  Ensure(num_free + stored + read_only + reserved_ == num_slots,
         "a slot is lost");
  Ensure(stored + reserved_ <= hard_capacity_,
         "more steps than the hard capacity");
  CheckItems();
  for (const auto& distribution : distributions_) {
    distribution->CheckInvariants(keys);
  }
  if (reserved_ == 0) rows_.CheckInvariants();
}

void Memory::CheckItems() const {
  int64_t items = 0;
  std::vector<int32_t> views(rows_.num_slots());
  for (size_t slot = 0; slot < views.size(); ++slot) {
    const Slot& item = slots_[slot];
    items += item.length > 0;
    for (int32_t t = 0; t < item.length; ++t) {
      const int32_t step = item.key > std::numeric_limits<int64_t>::max() - t
                               ? kNoSlot
                               : index_.Find(item.key + t);
      Ensure(step != kNoSlot, "a step of an item is missing");
      ++views[step];
    }
  }
  for (size_t slot = 0; slot < views.size(); ++slot) {
    Ensure(views[slot] == slots_[slot].views, "views and lengths disagree");
  }
  const Statistics& s = statistics_;
  for (const int64_t counter :
       {s.inserted, s.duplicates, s.incomplete, s.unviewed, s.removed,
        s.sampled, s.updated, s.missing}) {
    Ensure(0 <= counter && counter <= kMaxCount, "a counter is out of range");
  }
  Ensure(s.items == items && s.inserted - s.removed == items,
         "items miscounted");
}

}  // namespace replay
