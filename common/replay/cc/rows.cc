#include "rows.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "invariants.h"

namespace replay {
namespace {

// Returns a T from an address that may be unaligned, since rows are packed.
template <typename T>
T Get(const char* from) {
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
      max_slots_(max_slots),
      rows_((max_slots + 1) * row_bytes_) {}

Rows::~Rows() {
  ForEachBlock([](const Block& block) { delete[] block.data; });
}

bool Rows::Take(size_t n, std::vector<int32_t>* slots) {
  if (free_.size() + (max_slots_ - num_slots_) < n) return false;
  for (size_t i = 0; i < n; ++i) {
    if (free_.empty()) {
      slots->push_back(static_cast<int32_t>(num_slots_++));
    } else {
      slots->push_back(free_.back());
      free_.pop_back();
    }
  }
  return true;
}

void Rows::Write(int32_t slot, const std::vector<ColumnSource>& columns,
                 size_t i) {
  ForEachColumn(RowAt(slot), [&](size_t c, size_t bytes, char* place) {
    if (bytes == kVariable) {
      WriteBlock(place, columns[c].variable[i]);
    } else if (bytes > 0) {  // Otherwise neither the row nor the values need exist.
      std::memcpy(place, columns[c].fixed + i * bytes, bytes);
    }
  });
}

void Rows::WriteBlock(char* place, std::string_view value) {
  const Block old = Get<Block>(place);
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
      const char* row = RowAt(slots[i]);
      // Up to the cache line of the last byte, since a row may start inside a line.
      for (size_t b = 0; b < row_bytes_ + kLine - 1; b += kLine) {
        __builtin_prefetch(row + b, 0, 2);
      }
    }
    for (size_t i = begin; i < end; ++i) {
      ForEachColumn(RowAt(slots[i]), [&](size_t c, size_t bytes, const char* place) {
        if (bytes == kVariable) {
          const Block block = Get<Block>(place);
          columns[c].variable(i, {block.data, block.size});
        } else if (bytes > 0) {
          std::memcpy(columns[c].fixed + i * bytes, place, bytes);
        }
      });
    }
  }
}

const char* Rows::Value(int32_t slot, size_t column) const {
  const char* value = RowAt(slot);
  for (size_t c = 0; c < column; ++c) value += BytesInRow(column_bytes_[c]);
  return value;
}

template <typename Byte, typename Function>
void Rows::ForEachColumn(Byte* row, Function function) const {
  for (size_t c = 0; c < column_bytes_.size(); ++c) {
    function(c, column_bytes_[c], row);
    row += BytesInRow(column_bytes_[c]);
  }
}

template <typename Function>
void Rows::ForEachBlock(Function function) const {
  for (size_t slot = 0; has_blocks_ && slot < num_slots_; ++slot) {
    ForEachColumn(RowAt(slot), [&](size_t, size_t bytes, const char* place) {
      if (bytes == kVariable) function(Get<Block>(place));
    });
  }
}

void Rows::Release(int32_t slot) {
  SaveRow(slot);
  free_.push_back(slot);
  if (!has_blocks_) return;
  ForEachColumn(RowAt(slot), [&](size_t, size_t bytes, char* place) {
    if (bytes == kVariable) WriteBlock(place, {});
  });
}

void Rows::SaveRow(int32_t slot) {
  if (static_cast<size_t>(slot) >= waits_.size() || !waits_[slot]) return;
  waits_[slot] = false;
  saved_next_.Value<uint64_t>(slot);
  if (!has_blocks_) return saved_next_.Array(RowAt(slot), row_bytes_);
  ForEachColumn(RowAt(slot), [&](size_t, size_t bytes, const char* place) {
    if (bytes != kVariable) return saved_next_.Array(place, bytes);
    const Block block = Get<Block>(place);
    saved_next_.Value(block.size);
    saved_next_.Array(block.data, block.size);
  });
}

void Rows::LoadFreeSlots(FileReader& file) {
  free_.resize(file.Count(num_slots_));
  file.Indices(free_.data(), free_.size(), num_slots_);
}

void Rows::Load(FileReader& file, std::vector<bool> is_stored) {
  const auto num_rows = std::count(is_stored.begin(), is_stored.end(), true);
  std::vector<bool> is_known = is_stored;
  for (const int32_t slot : free_) is_known[slot] = true;
  for (size_t slot = 0; slot < num_slots_; ++slot) {
    if (!is_known[slot]) free_.push_back(static_cast<int32_t>(slot));
  }
  std::string value;
  for (auto left = num_rows; left > 0; --left) {
    const size_t slot = file.Count(is_stored.size() - 1);
    if (!is_stored[slot]) file.Refuse("it has a row that is not stored");
    is_stored[slot] = false;
    char* const row = RowAt(static_cast<int32_t>(slot));
    if (!has_blocks_) {
      file.Array(row, row_bytes_);
      continue;
    }
    ForEachColumn(row, [&](size_t, size_t bytes, char* place) {
      if (bytes != kVariable) return file.Array(place, bytes);
      value.resize(file.CountOf(1));
      file.Array(value.data(), value.size());
      WriteBlock(place, value);
    });
  }
}

void Rows::CheckInvariants() const {
  int64_t held = 0;
  ForEachBlock([&](const Block& block) {
    held += static_cast<int64_t>(block.size);
    Ensure((block.data == nullptr) == (block.size == 0),
           "rows: a value without a block, or a block without a value");
  });
  Ensure(held == held_bytes_, "rows: bytes miscounted");
}

}  // namespace replay
