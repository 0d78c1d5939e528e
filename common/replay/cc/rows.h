// The stored steps themselves: a row of columns in each slot.
#ifndef COMMON_REPLAY_CC_ROWS_H_
#define COMMON_REPLAY_CC_ROWS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lazy_array.h"

namespace replay {

// In place of a slot, where there is none.
constexpr int32_t kNoSlot = -1;

// Bytes of a column whose values have each their own size.
constexpr size_t kVariable = SIZE_MAX;

// The values of a column that are to be stored: one behind the other, or, of a
// variable column, wherever they are.
struct ColumnSource {
  const char* fixed = nullptr;
  std::vector<std::string_view> variable;
};

// Where the values of a column are copied to: one behind the other, or, of a
// variable column, to a function that takes value i. It is called once for each
// i; what it is given is there during the call only.
struct ColumnTarget {
  char* fixed = nullptr;
  std::function<void(size_t i, std::string_view value)> variable;
};

// Fixed-size values lie in their row. A variable value lies in a block of its
// own, to which the row points and which lives until the slot is written again
// or the rows end.
//
// Rows may be written and copied from any thread at once, if they are others.
class Rows {
 public:
  // `column_bytes` has the size of each column's values, or kVariable.
  Rows(size_t max_slots, std::vector<size_t> column_bytes);
  ~Rows();

  // Stores value i of each column.
  void Write(int32_t slot, const std::vector<ColumnSource>& columns, size_t i);

  // Copies the row of slots[i] as value i of each column; zeros, or an empty
  // value, where it is kNoSlot.
  void Copy(const std::vector<int32_t>& slots,
            const std::vector<ColumnTarget>& columns) const;

  // Bytes of all variable values that are held.
  int64_t held_bytes() const { return held_bytes_; }

  // Empty or what is wrong. No row may be written meanwhile.
  std::string CheckInvariants() const;

 private:
  // How a row holds a variable value. Zeroed memory is an empty one.
  struct Block {
    char* data;
    size_t size;
  };

  static size_t BytesInRow(size_t column_bytes) {
    return column_bytes == kVariable ? sizeof(Block) : column_bytes;
  }
  void WriteBlock(char* place, std::string_view value);
  void CopyRow(int32_t slot, size_t i,
               const std::vector<ColumnTarget>& columns) const;
  // Calls function(block) for each block of the slots ever written.
  template <typename Function>
  void ForEachBlock(Function function) const;

  const std::vector<size_t> column_bytes_;
  const size_t row_bytes_;
  const bool has_blocks_;
  LazyArray<char> rows_;
  std::atomic<int32_t> num_written_{0};  // No slot from here on has a block.
  std::atomic<int64_t> held_bytes_{0};
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_ROWS_H_
