// The storage of steps: a row of columns in each slot.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "lazy_array.h"
#include "saved_file.h"

namespace replay {

// Stands for a missing slot, whose row consists of zeros and empty values.
constexpr int32_t kNoSlot = -1;

// The size given for a variable column, whose values differ in size.
constexpr size_t kVariable = SIZE_MAX;

// The values of a column to store: contiguous, or, for a variable column, each at
// any address.
struct ColumnSource {
  const char* fixed = nullptr;
  std::vector<std::string_view> variable;
};

// The destination of the values of a column: contiguous memory, or, for a variable
// column, a function that receives value i. The function is called once for each
// i, with a view that is valid only during the call.
struct ColumnTarget {
  char* fixed = nullptr;
  std::function<void(size_t i, std::string_view value)> variable;
};

// Values of fixed size are stored in their row, a variable value in a block of its
// own, to which the row points. A block is freed when its slot becomes free or
// the rows are destroyed.
//
// Threads may write and copy different rows at the same time. The methods that
// take or free slots, or tell which are free, require the memory's lock.
class Rows {
 public:
  // `column_bytes` contains the size of each column's values, or kVariable.
  Rows(size_t max_slots, std::vector<size_t> column_bytes);
  ~Rows();

  // Appends n free slots to `slots`; returns false, and takes none, if there are
  // fewer.
  bool Take(size_t n, std::vector<int32_t>* slots);

  // Stores value i of each column.
  void Write(int32_t slot, const std::vector<ColumnSource>& columns, size_t i);

  // Copies the row of slots[i] to value i of each column.
  void Copy(const std::vector<int32_t>& slots,
            const std::vector<ColumnTarget>& columns) const;

  // Returns the value of a column of fixed size.
  const char* Value(int32_t slot, size_t column) const;

  // Frees a slot and forgets its row.
  void Release(int32_t slot);

  size_t max_slots() const { return max_slots_; }
  // The number of slots ever taken; slots from this number on were never taken.
  size_t num_slots() const { return num_slots_; }
  const std::vector<int32_t>& free_slots() const { return free_; }

  // Saves a snapshot of the memory that owns these rows. Calls snapshot(writer)
  // under the memory's lock, which saves the structures and returns which slots are
  // stored. Their rows are copied later, a chunk at a time under the lock, or when
  // their slot becomes free.
  template <typename Mutex, typename Snapshot>
  void Save(FileWriter& file, Mutex& mutex, Snapshot snapshot);
  // These load the number of slots, the free slots, and the rows of stored slots.
  // Slots that are neither free nor stored were being written or read; they become
  // free.
  void LoadNumSlots(FileReader& file) { num_slots_ = file.Count(max_slots_); }
  void LoadFreeSlots(FileReader& file);
  void Load(FileReader& file, std::vector<bool> is_stored);

  // The total size of all stored variable values.
  int64_t held_bytes() const { return held_bytes_; }

  // Throws BrokenInvariant. No row may be written during the check.
  void CheckInvariants() const;

 private:
  // A row's reference to a variable value. Zeroed memory means an empty value.
  struct Block {
    char* data;
    size_t size;
  };

  char* RowAt(int32_t slot) { return rows_.data() + (slot + 1) * row_bytes_; }
  const char* RowAt(int32_t slot) const {
    return rows_.data() + (slot + 1) * row_bytes_;
  }
  static size_t BytesInRow(size_t column_bytes) {
    return column_bytes == kVariable ? sizeof(Block) : column_bytes;
  }
  void WriteBlock(char* place, std::string_view value);
  // Copies the row of a slot to saved_next_ if it still has to be saved.
  void SaveRow(int32_t slot);
  // Calls function(column, bytes, place) for each column of a row.
  template <typename Byte, typename Function>
  void ForEachColumn(Byte* row, Function function) const;
  // Calls function(block) for each variable value of each slot ever taken.
  template <typename Function>
  void ForEachBlock(Function function) const;

  const std::vector<size_t> column_bytes_;
  const size_t row_bytes_;
  const bool has_blocks_;
  const size_t max_slots_;
  LazyArray<char> rows_;  // The first row, of kNoSlot, is never written.
  std::vector<int32_t> free_;
  size_t num_slots_ = 0;
  std::atomic<int64_t> held_bytes_{0};

  std::mutex saves_;  // One save at a time.
  // The members below require the memory's lock.
  std::vector<bool> waits_;  // By slot: whether its row has to be saved.
  Writer saved_next_;
};

template <typename Mutex, typename Snapshot>
void Rows::Save(FileWriter& file, Mutex& mutex, Snapshot snapshot) {
  std::lock_guard<std::mutex> saving(saves_);
  Writer next;
  {
    std::lock_guard<Mutex> lock(mutex);
    waits_ = snapshot(next);
  }
  try {
    for (size_t slot = 0; !next.blocks().empty();) {
      file.Write(next);
      next = Writer();  // Frees the bytes before the lock is taken.
      std::lock_guard<Mutex> lock(mutex);
      for (; slot < waits_.size() && !saved_next_.IsFull(); ++slot) {
        SaveRow(static_cast<int32_t>(slot));
      }
      next = std::exchange(saved_next_, Writer());
    }
  } catch (...) {
    std::lock_guard<Mutex> lock(mutex);
    waits_.clear();
    saved_next_ = Writer();
    throw;
  }
}

}  // namespace replay
