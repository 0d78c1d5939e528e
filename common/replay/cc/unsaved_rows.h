// The rows of a snapshot that are not in its file yet.
#ifndef COMMON_REPLAY_CC_UNSAVED_ROWS_H_
#define COMMON_REPLAY_CC_UNSAVED_ROWS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rows.h"
#include "saved_file.h"

namespace replay {

// Rows are written while the memory goes on, without its lock: those of a chunk
// are pinned and copied. A row whose slot becomes free before its turn is copied
// at once, by the call that frees it. So the file gets each row as it was at the
// moment of the snapshot. Rows come in any order, each after its slot.
//
// Begin and Keep require the memory's lock.
class UnsavedRows {
 public:
  explicit UnsavedRows(const Rows& rows) : rows_(rows) {}

  // Begins a snapshot of the rows of the slots for which `waits` is true.
  void Begin(std::vector<bool> waits) { waits_ = std::move(waits); }

  // Copies the row of a slot that becomes free, if it waits.
  void Keep(int32_t slot) {
    if (static_cast<size_t>(slot) >= waits_.size() || !waits_[slot]) return;
    waits_[slot] = false;
    // Not one long string, since growing it would copy it.
    if (kept_.empty() || kept_.back().size() > kKeptBytes) {
      kept_.emplace_back().reserve(2 * kKeptBytes);
    }
    rows_.Append(slot, kept_.back());
  }

  // Writes `count`, the number of the rows, then the rows, and ends the snapshot.
  // pin(slot) keeps a slot, which is not free, from becoming free until
  // unpin(slots); both are called under the lock.
  template <typename Mutex, typename Pin, typename Unpin>
  void Write(uint64_t count, FileWriter& file, Mutex& mutex, Pin pin,
             Unpin unpin) {
    const size_t bytes_of_row = sizeof(uint64_t) + rows_.MeanBytes(count);
    const size_t at_once = std::max<size_t>(1, kChunkBytes / bytes_of_row);
    std::vector<int32_t> slots;
    std::vector<std::string> kept;
    std::string pinned;
    size_t next = 0;
    // Takes what was kept, and the slots whose turn it is; returns whether there
    // were any.
    const auto take = [&] {
      std::lock_guard<Mutex> lock(mutex);
      kept.swap(kept_);
      for (; next < waits_.size() && slots.size() < at_once; ++next) {
        if (!waits_[next]) continue;
        waits_[next] = false;
        slots.push_back(static_cast<int32_t>(next));
        pin(slots.back());
      }
      return !kept.empty() || !slots.empty();
    };
    const auto give_back = [&] {
      std::lock_guard<Mutex> lock(mutex);
      unpin(slots);
      slots.clear();
    };
    const auto end = [&] {
      std::lock_guard<Mutex> lock(mutex);
      waits_.clear();
      kept_.clear();
    };
    try {
      file.Write(reinterpret_cast<const char*>(&count), sizeof(count));
      while (take()) {
        for (const int32_t slot : slots) rows_.Append(slot, pinned);
        give_back();
        file.Write(pinned.data(), pinned.size());
        pinned.clear();
        for (const std::string& rows : kept) file.Write(rows.data(), rows.size());
        kept.clear();
      }
    } catch (...) {
      give_back();
      end();
      throw;
    }
    end();
  }

 private:
  static constexpr size_t kKeptBytes = size_t{1} << 20;

  const Rows& rows_;
  std::vector<bool> waits_;  // By slot; empty if no snapshot is being written.
  std::vector<std::string> kept_;  // Rows whose slots have become free.
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_UNSAVED_ROWS_H_
