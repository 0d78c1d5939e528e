// A distribution that draws every item with the same probability.
#ifndef COMMON_REPLAY_CC_UNIFORM_H_
#define COMMON_REPLAY_CC_UNIFORM_H_

#include <algorithm>
#include <string>

#include "distribution.h"
#include "lazy_array.h"

namespace replay {

// A dense list of the slots in use, and the place of each slot in that list.
// Insert, erase (by swapping with the last slot) and draw are O(1).
class Uniform : public Distribution {
 public:
  explicit Uniform(size_t max_slots) : slots_(max_slots), place_(max_slots) {}

  void Insert(const int32_t* slots, const int64_t*, const float*,
              size_t n) override {
    for (size_t i = 0; i < n; ++i) {
      place_[slots[i]] = static_cast<int32_t>(count_);
      slots_[count_++] = slots[i];
    }
  }

  void Update(const int32_t*, const float*, size_t) override {}

  void Erase(const int32_t* slots, size_t n) override {
    for (size_t i = 0; i < n; ++i) {
      const int32_t last = slots_[--count_];
      slots_[place_[slots[i]]] = last;
      place_[last] = place_[slots[i]];
    }
  }

  bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
              double* masses) const override {
    if (count_ == 0) return false;
    std::uniform_int_distribution<size_t> place(0, count_ - 1);
    for (size_t i = 0; i < n; ++i) {
      slots[i] = slots_[place(rng)];
      masses[i] = 1.0;
    }
    return true;
  }

  void Masses(const int32_t*, size_t n, double* masses) const override {
    std::fill_n(masses, n, 1.0);
  }

  double total_mass() const override { return static_cast<double>(count_); }

  void Save(Writer& writer, size_t) const override {
    writer.Value(count_);
    writer.Array(slots_.data(), count_);
  }

  void Load(Reader& reader, size_t num_slots) override {
    count_ = reader.Count(num_slots);
    reader.Array(slots_.data(), count_);
    for (size_t i = 0; i < count_; ++i) {
      place_[slots_[i]] = static_cast<int32_t>(i);
    }
  }

  std::string CheckInvariants(size_t count) const override {
    if (count_ != count) return "uniform: wrong number of items";
    for (size_t i = 0; i < count_; ++i) {
      if (place_[slots_[i]] != static_cast<int32_t>(i)) {
        return "uniform: slot and place disagree at " + std::to_string(i);
      }
    }
    return "";
  }

 private:
  LazyArray<int32_t> slots_;
  LazyArray<int32_t> place_;
  size_t count_ = 0;
};

}  // namespace replay

#endif  // COMMON_REPLAY_CC_UNIFORM_H_
