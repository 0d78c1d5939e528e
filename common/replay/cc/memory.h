// A keyed store of steps, items that view them, and distributions over items.
#ifndef COMMON_REPLAY_CC_MEMORY_H_
#define COMMON_REPLAY_CC_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "distribution.h"
#include "fair_mutex.h"
#include "key_index.h"
#include "lazy_array.h"
#include "rows.h"

namespace replay {

// Steps are rows of columns, each under a unique key. An item is a view of
// `length` steps with consecutive keys; it goes by the key of its first step,
// so that overlapping sequences share their steps. A step lives as long as an
// item views it.
//
// When `hard_capacity` steps are stored, the removal distribution picks items
// to remove until there is room. `capacity`, if it is less, is a soft limit: it
// may be passed until RemoveToFit is called (Ape-X, section 4.1). Keys that are
// gone are skipped and counted, as are keys that are added again (appendix F).
//
// All methods may be called from any thread. Rows are copied outside the lock:
// a slot being read is pinned, and is used again only when its last reader is
// done; a slot being written is not yet known to anybody.
class Memory {
 public:
  // `column_bytes` are those of Rows. `distributions` share one memory;
  // `removal` is the index of the one that removes. A seed of 0 takes one from
  // the system.
  Memory(size_t capacity, size_t hard_capacity,
         std::vector<size_t> column_bytes,
         const std::vector<DistributionSpec>& distributions, size_t removal,
         uint64_t seed);

  enum class Outcome {
    kOk,
    kNothingToSample,  // No item of positive mass.
    kNoRoom,           // More rows in flight than the memory can hold.
  };

  // `columns[c]` has n values of column c.
  struct Steps {
    size_t n;
    const int64_t* keys;
    std::vector<ColumnSource> columns;
  };
  // Items may view steps of the same call and older ones. Without `lengths`
  // each views one step.
  struct Items {
    size_t n;
    const int64_t* keys;
    const int32_t* lengths;
    const float* priorities;
  };

  // All counts but the first three only grow.
  struct Statistics {
    int64_t steps;       // Stored now.
    int64_t items;       // Stored now.
    int64_t held_bytes;  // Of variable values now; see Rows.
    int64_t inserted;    // Items.
    int64_t duplicates;  // Steps whose key was there already.
    int64_t incomplete;  // Items refused because a step of theirs is missing.
    int64_t unviewed;    // Steps dropped because no item views them.
    int64_t removed;     // Items.
    int64_t sampled;     // Items, each time they were drawn.
    int64_t updated;     // Priorities.
    int64_t missing;     // Priorities skipped because the item is gone.
  };

  Outcome Insert(const Steps& steps, const Items& items);

  // Draws n items. `length` is the number of steps copied of each, padded with
  // zeros and empty values behind a shorter item: columns[c] takes n * length
  // values. A seed other than 0 makes a generator for this draw and leaves the
  // memory's alone.
  Outcome Sample(size_t distribution, size_t n, size_t length, uint64_t seed,
                 int64_t* keys, double* masses, int32_t* lengths,
                 double* total_mass, int64_t* count,
                 const std::vector<ColumnTarget>& columns);

  // Copies steps by key; zeros and empty values where found[i] is false.
  void Read(const int64_t* keys, size_t n, bool* found,
            const std::vector<ColumnTarget>& columns);

  // Returns the number of keys that are no items any more.
  int64_t UpdatePriorities(const int64_t* keys, const float* priorities,
                           size_t n);

  // Removes items until no more steps than `capacity` are stored, and returns
  // how many. Others have their turn in between; what they add is left.
  int64_t RemoveToFit();

  // The sum of all masses of a distribution, and the number of items.
  void Mass(size_t distribution, double* total_mass, int64_t* count) const;

  Statistics statistics() const;
  size_t capacity() const { return capacity_; }
  size_t hard_capacity() const { return hard_capacity_; }
  int64_t num_distributions() const {
    return static_cast<int64_t>(distributions_.size());
  }

  // Walks everything; empty or the first thing found wrong. For tests.
  std::string CheckInvariants() const;

 private:
  // Items that RemoveToFit removes before others have their turn.
  static constexpr size_t kRemovedAtOnce = 64;

  // The methods below require mutex_ to be held.
  bool MakeRoom(size_t n);
  // Removes items until no more than `steps` are stored or `most` are removed;
  // returns how many were.
  size_t RemoveDownTo(size_t steps, size_t most);
  bool Reserve(size_t n, int32_t* slots);
  bool AddView(int32_t first, int32_t length);
  void DropStep(int32_t slot);
  void Release(int32_t slot) { free_.push_back(slot); }
  void Unpin(const std::vector<int32_t>& slots);

  const size_t capacity_;
  const size_t hard_capacity_;
  const size_t max_slots_;
  Rows rows_;  // Used without mutex_, in slots that are pinned or reserved.

  mutable FairMutex mutex_;
  LazyArray<Slot> slots_;
  KeyIndex index_;
  std::vector<int32_t> free_;
  size_t next_unused_ = 0;  // Slots from here on have never been used.
  size_t reserved_ = 0;     // Slots being written.
  std::vector<std::unique_ptr<Distribution>> distributions_;
  const size_t removal_;
  std::mt19937_64 rng_;
  Statistics statistics_ = {};
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_MEMORY_H_
