// The storage of steps: a row of columns in each slot.
#ifndef COMMON_REPLAY_CC_ROWS_H_
#define COMMON_REPLAY_CC_ROWS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lazy_array.h"
#include "snapshot.h"

namespace replay {

// Stands for a missing slot.
constexpr int32_t kNoSlot = -1;

// Stands for the size of a column whose values differ in size.
constexpr size_t kVariable = SIZE_MAX;

// The values of a column to store: contiguous, or, for a variable column, each
// wherever it lies.
struct ColumnSource {
  const char* fixed = nullptr;
  std::vector<std::string_view> variable;
};

// The place to copy the values of a column to: contiguous memory, or, for a
// variable column, a function that takes value i. The function is called once
// for each i, with a view that is valid during the call only.
struct ColumnTarget {
  char* fixed = nullptr;
  std::function<void(size_t i, std::string_view value)> variable;
};

// Values of fixed size lie in their row. A variable value lies in a block of its
// own, to which the row points. A block is freed when its slot is written again
// or the rows are destroyed.
//
// Threads may write and copy different rows at the same time.
class Rows {
 public:
  // `column_bytes` has the size of each column's values, or kVariable.
  Rows(size_t max_slots, std::vector<size_t> column_bytes);
  ~Rows();

  // Stores value i of each column.
  void Write(int32_t slot, const std::vector<ColumnSource>& columns, size_t i);

  // Copies the row of slots[i] to value i of each column; writes zeros, or an
  // empty value, where slots[i] is kNoSlot.
  void Copy(const std::vector<int32_t>& slots,
            const std::vector<ColumnTarget>& columns) const;

  // Appends a slot and its row.
  void Append(int32_t slot, std::string& bytes) const;
  // Loads what Append has made, after the number of rows.
  void Load(Reader& reader);

  // Saves the sizes of the variable values in free slots, which still count as
  // stored. Their contents do not matter: LoadSizes makes zeros of them.
  void SaveSizes(const std::vector<int32_t>& slots, Writer& writer) const;
  void LoadSizes(const std::vector<int32_t>& slots, Reader& reader);

  // Exchanges all rows with those of `other`, of the same size and columns.
  void swap(Rows& other);

  // Returns the mean size of n rows, if those are all that is stored.
  size_t MeanBytes(size_t n) const {
    return row_bytes_ + held_bytes_ / std::max<size_t>(n, 1);
  }

  // The bytes of all variable values stored.
  int64_t held_bytes() const { return held_bytes_; }

  // Returns the first violation found, or an empty string. No row may be written
  // meanwhile.
  std::string CheckInvariants() const;

 private:
  // A row's reference to a variable value. Zeroed memory is an empty value.
  struct Block {
    char* data;
    size_t size;
  };

  char* RowAt(int32_t slot) { return rows_.data() + slot * row_bytes_; }
  const char* RowAt(int32_t slot) const {
    return rows_.data() + slot * row_bytes_;
  }
  static size_t BytesInRow(size_t column_bytes) {
    return column_bytes == kVariable ? sizeof(Block) : column_bytes;
  }
  // Has to be called before the first block of a slot is written.
  void CountWritten(int32_t slot);
  void WriteBlock(char* place, std::string_view value);
  void LoadRow(int32_t slot, Reader& reader);
  void CopyRow(int32_t slot, size_t i,
               const std::vector<ColumnTarget>& columns) const;
  // Calls function(block) for each variable value of each slot ever written.
  template <typename Function>
  void ForEachBlock(Function function) const;

  const std::vector<size_t> column_bytes_;
  const size_t row_bytes_;
  const bool has_blocks_;
  const size_t max_slots_;
  LazyArray<char> rows_;
  std::atomic<int32_t> num_written_{0};  // Slots from here on have no blocks.
  std::atomic<int64_t> held_bytes_{0};
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_ROWS_H_
