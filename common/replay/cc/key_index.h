// An open-addressing hash table from keys to slots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "invariants.h"
#include "lazy_array.h"
#include "rows.h"

namespace replay {

// The memory's record of a slot; it fits one cache line.
struct Slot {
  int64_t key;
  int32_t views;   // Items that view the step in this slot.
  int32_t pins;    // Readers that are copying the step now.
  int32_t length;  // Steps of the item that starts here; 0 if none does.
};

// Uses linear probing. Erase closes the hole by moving later entries back, so
// that no tombstones pile up. In addition to the slot, a place holds 32 bits of
// the key's hash. They tell where the entry belongs, and nearly always whether it
// matches, without a cache miss in the slots. A place takes 8 bytes, and a key 12
// to 24, since between a third and two thirds of the places stay empty.
class KeyIndex {
 public:
  // `slots[slot].key` must be the key of each slot that is in the index.
  KeyIndex(size_t max_keys, const LazyArray<Slot>& slots)
      : mask_(PlacesFor(max_keys) - 1), places_(mask_ + 1), slots_(slots) {}

  // Returns the slot of a key, or kNoSlot if it is absent.
  int32_t Find(int64_t key) const {
    const uint32_t hash = Hash(key);
    for (size_t i = hash & mask_; places_[i].link != 0; i = (i + 1) & mask_) {
      if (Is(i, key, hash)) return places_[i].link - 1;
    }
    return kNoSlot;
  }

  // Adds a key, which must be absent.
  void Insert(int64_t key, int32_t slot) {
    const uint32_t hash = Hash(key);
    size_t i = hash & mask_;
    while (places_[i].link != 0) i = (i + 1) & mask_;
    places_[i] = {hash, slot + 1};
    ++count_;
  }

  // Removes a key, which must be present.
  void Erase(int64_t key) {
    const uint32_t hash = Hash(key);
    size_t hole = hash & mask_;
    while (!Is(hole, key, hash)) hole = (hole + 1) & mask_;
    for (size_t i = (hole + 1) & mask_; places_[i].link != 0;
         i = (i + 1) & mask_) {
      const size_t home = places_[i].hash & mask_;
      if (((i - home) & mask_) >= ((i - hole) & mask_)) {
        places_[hole] = places_[i];
        hole = i;
      }
    }
    places_[hole] = {0, 0};
    --count_;
  }

  void Prefetch(int64_t key) const {
    __builtin_prefetch(places_.data() + (Hash(key) & mask_), 1);
  }

  size_t size() const { return count_; }

  // Throws BrokenInvariant.
  void CheckInvariants() const {
    size_t seen = 0;
    for (size_t i = 0; i <= mask_; ++i) {
      if (places_[i].link == 0) continue;
      ++seen;
      const int32_t slot = places_[i].link - 1;
      const int64_t key = slots_[slot].key;
      Ensure(Find(key) == slot, "index: key", key, " cannot be found");
    }
    Ensure(seen == count_, "index: wrong number of keys");
  }

 private:
  struct Place {
    uint32_t hash;
    int32_t link;  // Slot + 1, so that zeroed memory means "empty".
  };

  bool Is(size_t place, int64_t key, uint32_t hash) const {
    return places_[place].hash == hash &&
           slots_[places_[place].link - 1].key == key;
  }

  static size_t PlacesFor(size_t max_keys) {
    size_t places = 16;
    while (places < max_keys + max_keys / 2) places *= 2;
    return places;
  }

  // Keys of an actor are consecutive; the finalizer of splitmix64 scatters them.
  static uint32_t Hash(int64_t key) {
    uint64_t h = static_cast<uint64_t>(key);
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>(h ^ (h >> 31));
  }

  const size_t mask_;
  LazyArray<Place> places_;
  const LazyArray<Slot>& slots_;
  size_t count_ = 0;
};

}  // namespace replay
