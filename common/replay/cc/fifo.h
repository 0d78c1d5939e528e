// A distribution that always draws the oldest item.
#pragma once

#include <string>
#include <vector>

#include "distribution.h"
#include "lazy_array.h"

namespace replay {

// A doubly linked list in order of arrival: appending, finding the oldest item
// and erasing any item are O(1). A link is slot + 1, so that zeroed memory means
// "none".
class Fifo : public Distribution {
 public:
  explicit Fifo(size_t max_slots) : links_(max_slots) {}

  void Insert(const int32_t* slots, const int64_t*, const float*,
              size_t n) override {
    for (size_t i = 0; i < n; ++i) {
      const int32_t link = slots[i] + 1;
      links_[slots[i]].previous = newest_;
      links_[slots[i]].next = 0;
      (newest_ == 0 ? oldest_ : links_[newest_ - 1].next) = link;
      newest_ = link;
    }
  }

  void Update(const int32_t*, const float*, size_t) override {}

  void Erase(const int32_t* slots, size_t n) override {
    for (size_t i = 0; i < n; ++i) {
      const int32_t next = links_[slots[i]].next, previous = links_[slots[i]].previous;
      (previous == 0 ? oldest_ : links_[previous - 1].next) = next;
      (next == 0 ? newest_ : links_[next - 1].previous) = previous;
    }
  }

  bool Sample(size_t n, std::mt19937_64&, int32_t* slots,
              double* masses) const override {
    if (oldest_ == 0) return false;
    for (size_t i = 0; i < n; ++i) {
      slots[i] = oldest_ - 1;
      masses[i] = 1.0;
    }
    return true;
  }

  void Masses(const int32_t* slots, size_t n, double* masses) const override {
    for (size_t i = 0; i < n; ++i) {
      masses[i] = slots[i] + 1 == oldest_ ? 1.0 : 0.0;
    }
  }

  double total_mass() const override { return oldest_ == 0 ? 0.0 : 1.0; }

  void Save(Writer& writer, size_t num_slots) const override {
    writer.Array(links_.data(), num_slots);
    writer.Value(oldest_);
    writer.Value(newest_);
  }

  void Load(FileReader& file, size_t num_slots) override {
    file.Array(links_.data(), num_slots);
    file.Value(oldest_);
    file.Value(newest_);
  }

  void CheckInvariants(const std::vector<int64_t>& keys) const override {
    size_t count = 0;
    int32_t previous = 0;
    for (int32_t link = oldest_; link != 0; link = links_[link - 1].next) {
      Ensure(IsItem(keys, int64_t{link} - 1) &&
                 links_[link - 1].previous == previous,
             "fifo: broken link");
      previous = link;
      ++count;
    }
    Ensure(count == NumItems(keys) && previous == newest_,
           "fifo: wrong number of items");
  }

 private:
  struct Links {
    int32_t next, previous;
  };
  LazyArray<Links> links_;
  int32_t oldest_ = 0;
  int32_t newest_ = 0;
};

}  // namespace replay
