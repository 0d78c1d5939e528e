#include "rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace replay {
namespace {

// Reads a T that may be unaligned: rows are packed.
template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace

Rows::Rows(size_t max_slots, std::vector<size_t> column_bytes)
    : column_bytes_(std::move(column_bytes)),
      row_bytes_([this] {
        size_t sum = 0;
        for (const size_t bytes : column_bytes_) sum += BytesInRow(bytes);
        return sum;
      }()),
      has_blocks_(std::count(column_bytes_.begin(), column_bytes_.end(),
                             kVariable) > 0),
      rows_(max_slots * row_bytes_) {}

Rows::~Rows() {
  ForEachBlock([](const Block& block) { delete[] block.data; });
}

void Rows::Write(int32_t slot, const std::vector<ColumnSource>& columns,
                 size_t i) {
  if (has_blocks_) {
    int32_t end = num_written_;
    while (slot >= end && !num_written_.compare_exchange_weak(end, slot + 1)) {
    }
  }
  char* row = rows_.data() + slot * row_bytes_;
  for (size_t c = 0; c < column_bytes_.size(); ++c) {
    const size_t bytes = column_bytes_[c];
    if (bytes == 0) continue;  // Neither the row nor the values need exist.
    if (bytes == kVariable) {
      WriteBlock(row, columns[c].variable[i]);
    } else {
      std::memcpy(row, columns[c].fixed + i * bytes, bytes);
    }
    row += BytesInRow(bytes);
  }
}

void Rows::WriteBlock(char* place, std::string_view value) {
  const Block old = Load<Block>(place);
  delete[] old.data;
  Block block = {nullptr, value.size()};
  if (!value.empty()) {
    block.data = new char[value.size()];
    std::memcpy(block.data, value.data(), value.size());
  }
  std::memcpy(place, &block, sizeof(block));
  held_bytes_ += static_cast<int64_t>(block.size - old.size);
}

void Rows::Copy(const std::vector<int32_t>& slots,
                const std::vector<ColumnTarget>& columns) const {
  // Rows are scattered, so cache misses dominate the time of copying. They
  // overlap best if as many rows as fit the second-level cache are prefetched
  // at once.
  constexpr size_t kCachedBytes = 256 << 10, kLine = 64;
  const size_t cached =
      std::max<size_t>(1, kCachedBytes / (row_bytes_ + kLine));
  for (size_t begin = 0; begin < slots.size(); begin += cached) {
    const size_t end = std::min(slots.size(), begin + cached);
    for (size_t i = begin; i < end; ++i) {
      if (slots[i] == kNoSlot) continue;
      const char* row = rows_.data() + slots[i] * row_bytes_;
      // Up to the cache line of the last byte: a row may begin inside a line.
      for (size_t b = 0; b < row_bytes_ + kLine - 1; b += kLine) {
        __builtin_prefetch(row + b, 0, 2);
      }
    }
    for (size_t i = begin; i < end; ++i) CopyRow(slots[i], i, columns);
  }
}

void Rows::CopyRow(int32_t slot, size_t i,
                   const std::vector<ColumnTarget>& columns) const {
  const char* row =
      slot == kNoSlot ? nullptr : rows_.data() + slot * row_bytes_;
  for (size_t c = 0; c < column_bytes_.size(); ++c) {
    const size_t bytes = column_bytes_[c];
    if (bytes == 0) continue;
    if (bytes == kVariable) {
      const Block block = row == nullptr ? Block{} : Load<Block>(row);
      columns[c].variable(i, {block.data, block.size});
    } else if (row == nullptr) {
      std::memset(columns[c].fixed + i * bytes, 0, bytes);
    } else {
      std::memcpy(columns[c].fixed + i * bytes, row, bytes);
    }
    if (row != nullptr) row += BytesInRow(bytes);
  }
}

template <typename Function>
void Rows::ForEachBlock(Function function) const {
  for (int32_t slot = 0; slot < num_written_; ++slot) {
    const char* place = rows_.data() + slot * row_bytes_;
    for (const size_t bytes : column_bytes_) {
      if (bytes == kVariable) function(Load<Block>(place));
      place += BytesInRow(bytes);
    }
  }
}

std::string Rows::CheckInvariants() const {
  int64_t held = 0;
  std::string wrong;
  ForEachBlock([&](const Block& block) {
    held += static_cast<int64_t>(block.size);
    if ((block.data == nullptr) != (block.size == 0)) {
      wrong = "rows: a value without a block, or a block without a value";
    }
  });
  if (wrong.empty() && held != held_bytes_) wrong = "rows: bytes miscounted";
  return wrong;
}

}  // namespace replay
