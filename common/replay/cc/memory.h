// A keyed store of steps, items that view them, and distributions over items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "distribution.h"
#include "fair_mutex.h"
#include "key_index.h"
#include "lazy_array.h"
#include "rows.h"
#include "saved_file.h"

namespace replay {

// A step is a row of columns under a unique key. An item is a view of `length`
// steps with consecutive keys and is identified by the key of its first step, so
// that overlapping sequences share their steps. A step is kept as long as an
// item views it.
//
// When `hard_capacity` steps are stored, Insert removes items, picked by the
// removal distribution, until there is room. `capacity`, if it is less, is a soft
// limit: only RemoveToFit enforces it (Ape-X, section 4.1). Updates of keys that
// are gone are skipped and counted, and so are keys that are inserted again
// (appendix F).
//
// All methods but Load are thread-safe. Rows are copied outside the lock: a slot
// that is being read is pinned and is reused only when its last reader is done; a
// slot that is being written cannot be found yet.
class Memory {
 public:
  // `column_bytes` is as in Rows. `removal` is the index of the distribution that
  // picks the items to remove. A seed of 0 takes one from the system.
  Memory(size_t capacity, size_t hard_capacity,
         std::vector<size_t> column_bytes,
         const std::vector<DistributionSpec>& distributions, size_t removal,
         uint64_t seed);

  // Steps to insert; `columns[c]` has n values of column c.
  struct Steps {
    size_t n;
    const int64_t* keys;
    std::vector<ColumnSource> columns;
  };
  // Items to insert. They may view steps of the same call and older steps.
  // Without `lengths` each item views one step. Lengths are in [1, capacity], and
  // no step has a key above 2^63 - 1.
  struct Items {
    size_t n;
    const int64_t* keys;
    const int32_t* lengths;
    const float* priorities;
  };

  // Counters; all but the first three only grow.
  struct Statistics {
    int64_t steps;       // Steps stored now.
    int64_t items;       // Items stored now.
    int64_t held_bytes;  // Bytes of all variable values stored now; see Rows.
    int64_t inserted;    // Items inserted.
    int64_t duplicates;  // Steps skipped because their key was stored already.
    int64_t incomplete;  // Items refused because one of their steps was missing.
    int64_t unviewed;    // Steps dropped because no item viewed them.
    int64_t removed;     // Items removed.
    int64_t sampled;     // Items drawn, counted each time.
    int64_t updated;     // Priorities updated.
    int64_t missing;     // Priority updates skipped: the item was gone.
  };

  // Returns false, and inserts nothing, if more rows are being written than the
  // memory can hold.
  bool Insert(const Steps& steps, const Items& items);

  // Draws n items and copies the first `length` >= 1 steps of each, padded with
  // zeros and empty values after the end of a shorter item: columns[c] receives
  // n * length values. With a seed other than 0 the draw uses a generator of its
  // own and does not change the memory's. Returns false if there is no item of
  // positive mass.
  bool Sample(size_t distribution, size_t n, size_t length, uint64_t seed,
              int64_t* keys, double* masses, int32_t* lengths,
              double* total_mass, int64_t* count,
              const std::vector<ColumnTarget>& columns);

  // Copies steps by key; writes zeros and empty values where found[i] is false.
  void Read(const int64_t* keys, size_t n, bool* found,
            const std::vector<ColumnTarget>& columns);

  // Sets the priorities of items. Returns the number of items that are gone.
  int64_t UpdatePriorities(const int64_t* keys, const float* priorities,
                           size_t n);

  // Removes items until at most `capacity` steps are stored; returns the number
  // of items removed. Other calls may take the lock in between; the steps that
  // they add are not removed.
  int64_t RemoveToFit();

  // Writes the masses of the items with `keys`, the sum of the masses of all items,
  // and the number of all items. Without an item of keys[i], found[i] is false and
  // masses[i] is 0.
  void Masses(size_t distribution, const int64_t* keys, size_t n, bool* found,
              double* masses, double* total_mass, int64_t* count) const;

  // Saves a snapshot of one moment. Holds the lock while the structures are copied,
  // about 50 bytes per step, and then briefly for each chunk of rows. Rows that
  // other calls remove before their chunk are kept in RAM.
  void Save(FileWriter& file);
  // Loads into a new memory, which no other thread uses. Refuses a file whose
  // content breaks an invariant. If this throws, the memory must be destroyed.
  void Load(FileReader& file);

  Statistics statistics() const;
  size_t capacity() const { return capacity_; }
  size_t hard_capacity() const { return hard_capacity_; }

  // Throws BrokenInvariant.
  void CheckInvariants() const;

 private:
  // Maximum number of items that RemoveToFit removes each time it holds the lock.
  static constexpr size_t kRemovedAtOnce = 64;

  // The methods below require mutex_ to be held.

  // Removes items until at most `steps` steps are stored or `most` items are
  // removed; returns the number of items removed.
  size_t RemoveDownTo(size_t steps, size_t most);
  // Takes n slots for steps that are about to be written; removes items until
  // they fit. Returns false if they cannot fit.
  bool Reserve(size_t n, std::vector<int32_t>* slots);
  // Makes an item of the step in slot `first` and the steps with the next keys;
  // returns false if one of these steps is missing.
  bool AddView(int32_t first, int32_t length);
  // Forgets a step that no item views; its slot stays while readers copy it.
  void DropStep(int32_t slot);
  void Unpin(const std::vector<int32_t>& slots);
  // Returns for each slot whether it holds a step that an item views.
  std::vector<bool> IsStored() const;
  // Checks the views of all steps, the number of items, and the counters.
  void CheckItems() const;

  const size_t capacity_;
  const size_t hard_capacity_;
  Rows rows_;  // Accessed without mutex_, in pinned or reserved slots only.

  mutable FairMutex mutex_;
  LazyArray<Slot> slots_;
  KeyIndex index_;
  size_t reserved_ = 0;  // Slots being written.
  std::vector<std::unique_ptr<Distribution>> distributions_;
  const size_t removal_;
  std::mt19937_64 rng_;
  Statistics statistics_ = {};
};

}  // namespace replay
