// Where each key is stored: an open-addressing hash of key to slot.
#ifndef COMMON_REPLAY_CC_KEY_INDEX_H_
#define COMMON_REPLAY_CC_KEY_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "lazy_array.h"

namespace replay {

// What the memory knows of a slot, in one cache line.
struct Slot {
  int64_t key;
  int32_t views;   // Items that view the step stored here.
  int32_t pins;    // Readers that copy it now.
  int32_t length;  // Of the item that starts here, else 0.
};

// The table holds slot + 1 (0 is empty) and finds the key itself in the slot,
// so that it costs four bytes a place: about eight bytes a key at the load that
// it is made for. Linear probing; an erased place is closed by moving later
// ones back, so no tombstones pile up.
class KeyIndex {
 public:
  static constexpr int32_t kAbsent = -1;

  // `slots[slot].key` must be right for each slot that is in the index.
  KeyIndex(size_t max_keys, const LazyArray<Slot>& slots)
      : mask_(PlacesFor(max_keys) - 1), places_(mask_ + 1), slots_(slots) {}

  int32_t Find(int64_t key) const {
    for (size_t i = Home(key);; i = (i + 1) & mask_) {
      const int32_t slot = places_[i] - 1;
      if (slot < 0 || slots_[slot].key == key) return slot;
    }
  }

  // The key must be absent.
  void Insert(int64_t key, int32_t slot) {
    size_t i = Home(key);
    while (places_[i] != 0) i = (i + 1) & mask_;
    places_[i] = slot + 1;
    ++count_;
  }

  // The key must be present.
  void Erase(int64_t key) {
    size_t hole = Home(key);
    while (slots_[places_[hole] - 1].key != key) hole = (hole + 1) & mask_;
    for (size_t i = (hole + 1) & mask_; places_[i] != 0; i = (i + 1) & mask_) {
      const size_t home = Home(slots_[places_[i] - 1].key);
      if (((i - home) & mask_) >= ((i - hole) & mask_)) {
        places_[hole] = places_[i];
        hole = i;
      }
    }
    places_[hole] = 0;
    --count_;
  }

  void Prefetch(int64_t key) const {
    __builtin_prefetch(places_.data() + Home(key));
  }

  size_t size() const { return count_; }

  std::string CheckInvariants() const {
    size_t seen = 0;
    for (size_t i = 0; i <= mask_; ++i) {
      if (places_[i] == 0) continue;
      ++seen;
      if (Find(slots_[places_[i] - 1].key) != places_[i] - 1) {
        return "index: key " + std::to_string(slots_[places_[i] - 1].key) +
               " cannot be found";
      }
    }
    return seen == count_ ? "" : "index: wrong number of keys";
  }

 private:
  static size_t PlacesFor(size_t max_keys) {
    size_t places = 16;
    while (places < max_keys + max_keys / 2) places *= 2;
    return places;
  }

  size_t Home(int64_t key) const {
    // Keys count up step by step; the finalizer of splitmix64 scatters them.
    uint64_t h = static_cast<uint64_t>(key);
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
    return (h ^ (h >> 31)) & mask_;
  }

  const size_t mask_;
  LazyArray<int32_t> places_;
  const LazyArray<Slot>& slots_;
  size_t count_ = 0;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_KEY_INDEX_H_
