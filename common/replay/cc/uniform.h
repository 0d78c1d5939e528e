// The distribution that draws every item with the same probability, and mixtures
// of other distributions with it.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

  void Load(FileReader& file, size_t num_slots) override {
    count_ = file.Count(num_slots);
    file.Indices(slots_.data(), count_, num_slots);
    for (size_t i = 0; i < count_; ++i) {
      place_[slots_[i]] = static_cast<int32_t>(i);
    }
  }

  void CheckInvariants(const std::vector<int64_t>& keys) const override {
    Ensure(count_ == NumItems(keys), "uniform: wrong number of items");
    for (size_t i = 0; i < count_; ++i) {
      Ensure(IsItem(keys, slots_[i]) &&
                 place_[slots_[i]] == static_cast<int32_t>(i),
             "uniform: place", i, " and its slot disagree");
    }
  }

 private:
  LazyArray<int32_t> slots_;
  LazyArray<int32_t> place_;
  size_t count_ = 0;
};

// P(k) = (1 - mix) P_base(k) + mix / N. The total mass is the base's total mass,
// and mass / total mass is P. If the base has no mass, every item has mass 1.
class UniformMix : public Distribution {
 public:
  UniformMix(size_t max_slots, double mix, std::unique_ptr<Distribution> base)
      : mix_(mix), base_(std::move(base)), uniform_(max_slots) {}

  void Insert(const int32_t* slots, const int64_t* keys,
              const float* priorities, size_t n) override {
    base_->Insert(slots, keys, priorities, n);
    uniform_.Insert(slots, keys, priorities, n);
  }

  void Update(const int32_t* slots, const float* priorities,
              size_t n) override {
    base_->Update(slots, priorities, n);
  }

  void Erase(const int32_t* slots, size_t n) override {
    base_->Erase(slots, n);
    uniform_.Erase(slots, n);
  }

  bool Sample(size_t n, std::mt19937_64& rng, int32_t* slots,
              double* masses) const override {
    if (!uniform_.Sample(n, rng, slots, masses)) return false;
    if (!BaseHasMass()) return true;
    std::bernoulli_distribution is_uniform(mix_);
    std::vector<size_t> of_base;
    for (size_t i = 0; i < n; ++i) {
      if (!is_uniform(rng)) of_base.push_back(i);
    }
    std::vector<int32_t> drawn(of_base.size());
    std::vector<double> unmixed(of_base.size());
    base_->Sample(of_base.size(), rng, drawn.data(), unmixed.data());
    for (size_t i = 0; i < of_base.size(); ++i) slots[of_base[i]] = drawn[i];
    Masses(slots, n, masses);
    return true;
  }

  void Masses(const int32_t* slots, size_t n, double* masses) const override {
    if (!BaseHasMass()) return uniform_.Masses(slots, n, masses);
    base_->Masses(slots, n, masses);
    const double total = base_->total_mass();
    const double share = mix_ * total / uniform_.total_mass();
    for (size_t i = 0; i < n; ++i) {
      // Rounding must not put the mass of a single item above the total.
      masses[i] = std::min((1 - mix_) * masses[i] + share, total);
    }
  }

  double total_mass() const override {
    return BaseHasMass() ? base_->total_mass() : uniform_.total_mass();
  }

  void Save(Writer& writer, size_t num_slots) const override {
    base_->Save(writer, num_slots);
    uniform_.Save(writer, num_slots);
  }

  void Load(FileReader& file, size_t num_slots) override {
    base_->Load(file, num_slots);
    uniform_.Load(file, num_slots);
  }

  void CheckInvariants(const std::vector<int64_t>& keys) const override {
    uniform_.CheckInvariants(keys);
    base_->CheckInvariants(keys);
  }

 private:
  // A total below the smallest normal number counts as no mass: a share of it might
  // round to 0, and items of mass 0 must not be drawn.
  bool BaseHasMass() const {
    return base_->total_mass() >= std::numeric_limits<double>::min();
  }

  const double mix_;
  const std::unique_ptr<Distribution> base_;
  Uniform uniform_;
};

}  // namespace replay
