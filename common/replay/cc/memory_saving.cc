// The saving and loading of `Memory`.
#include <utility>
#include <vector>

#include "memory.h"

namespace replay {

void Memory::Save(FileWriter& file) {
  std::lock_guard<std::mutex> one(saves_);
  Writer structures;
  {
    std::lock_guard<FairMutex> lock(mutex_);
    SaveStructures(structures);
  }
  structures.MakeRoom();
  uint64_t num_rows;
  {
    std::lock_guard<FairMutex> lock(mutex_);
    SaveStructures(structures);
    num_rows = index_.size();
    std::vector<bool> is_stored(next_unused_);
    for (size_t slot = 0; slot < next_unused_; ++slot) {
      is_stored[slot] = slots_[slot].views > 0;
    }
    unsaved_.Begin(std::move(is_stored));
  }
  unsaved_.Write(
      num_rows, file, mutex_, [&](int32_t slot) { ++slots_[slot].pins; },
      [&](const std::vector<int32_t>& slots) { Unpin(slots); });
  file.Write(structures.bytes().data(), structures.bytes().size());
}

void Memory::SaveStructures(Writer& writer) const {
  writer.Value(next_unused_);
  writer.Array(slots_.data(), next_unused_);
  writer.Vector(free_);
  rows_.SaveSizes(free_, writer);
  writer.Value(rng_);
  writer.Value(statistics_);
  for (const auto& distribution : distributions_) {
    distribution->Save(writer, next_unused_);
  }
}

void Memory::Load(FileReader& file) {
  Reader reader(file);
  rows_.Load(reader);
  next_unused_ = reader.Count(max_slots_);
  reader.Array(slots_.data(), next_unused_);
  reader.Vector(free_);
  rows_.LoadSizes(free_, reader);
  reader.Value(rng_);
  reader.Value(statistics_);
  for (const auto& distribution : distributions_) {
    distribution->Load(reader, next_unused_);
  }
  std::vector<bool> is_free(next_unused_);
  for (const int32_t slot : free_) is_free[slot] = true;
  for (size_t i = 0; i < next_unused_; ++i) {
    const int32_t slot = static_cast<int32_t>(i);
    slots_[slot].pins = 0;
    if (slots_[slot].views > 0) {
      index_.Insert(slots_[slot].key, slot);
    } else if (!is_free[slot]) {
      // A call was writing to the slot, or still reading it.
      Release(slot);
    }
  }
}

bool Memory::SwapIfEmpty(Memory& other) {
  std::lock_guard<FairMutex> lock(mutex_);
  if (free_.size() != next_unused_) return false;
  rows_.swap(other.rows_);
  slots_.swap(other.slots_);
  index_.swap(other.index_);
  free_.swap(other.free_);
  std::swap(next_unused_, other.next_unused_);
  distributions_.swap(other.distributions_);
  std::swap(rng_, other.rng_);
  std::swap(statistics_, other.statistics_);
  return true;
}

}  // namespace replay
