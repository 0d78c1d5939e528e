#include "episode_memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

namespace replay {
namespace {

// Added to the reward scale (ReF-ER, appendix B).
constexpr double kSmallestScale = 1e-7;

// Returns the number of slots: each step may be an episode of two states. Extra
// slots are for removed episodes that are still being read.
size_t MaxSlots(size_t capacity) {
  return 2 * capacity + capacity / 16 + 65536;
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

}  // namespace

NearPolicy::NearPolicy(float c_max) : low(1.0 / c_max), high(c_max) {
  if (low > 1.0 / c_max) low = std::nextafter(low, 0.0f);
}

EpisodeMemory::Episode::Episode(size_t num_steps)
    : num_steps(num_steps),
      rewards(num_steps + 1),
      values(num_steps + 1),
      advantages(num_steps + 1),
      rhos(num_steps + 1, 1.0f),
      divergences(num_steps + 1),
      errors(num_steps + 1, kUnknownPriority),
      q_ret(num_steps + 1) {
  rhos.back() = 0.0f;
}

EpisodeMemory::EpisodeMemory(size_t capacity, float discount,
                             std::vector<size_t> column_bytes,
                             const DistributionSpec& sampling, Removal removal,
                             uint64_t seed)
    : capacity_(capacity),
      discount_(discount),
      removal_(removal),
      rows_(MaxSlots(capacity), std::move(column_bytes)),
      places_(rows_.max_slots()),
      distribution_(MakeDistribution(sampling, rows_.max_slots())),
      rng_(seed != 0 ? seed : std::random_device()()) {}

bool EpisodeMemory::Add(const NewEpisode& added, int64_t* key) {
  const size_t num_steps = added.num_steps;
  auto episode = std::make_unique<Episode>(num_steps);
  episode->terminated = added.terminated;
  std::copy_n(added.rewards, num_steps, episode->rewards.begin());
  std::copy_n(added.values, num_steps + 1, episode->values.begin());
  if (added.terminated) episode->values.back() = 0.0f;
  std::copy_n(added.advantages, num_steps, episode->advantages.begin());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!Reserve(num_steps, &episode->slots)) return false;
  }
  for (size_t t = 0; t <= num_steps; ++t) {
    rows_.Write(episode->slots[t], added.columns, t);
  }

  std::vector<int64_t> keys(num_steps);
  std::lock_guard<std::mutex> lock(mutex_);
  reserved_ -= num_steps;
  num_steps_ += num_steps;
  *key = episode->key = next_key_;
  next_key_ += num_steps;
  for (size_t t = 0; t <= num_steps; ++t) {
    places_[episode->slots[t]] = {episode.get(), static_cast<int32_t>(t), false};
    if (t < num_steps) keys[t] = *key + t;
  }
  distribution_->Insert(episode->slots.data(), keys.data(),
                        episode->errors.data(), num_steps);
  const int64_t last = num_steps - 1;
  Sweep(*episode, &last, 1);
  if (num_far_ != kNotCounted) num_far_ += CountFar(*episode);
  episodes_.push_back(std::move(episode));
  return true;
}

int64_t EpisodeMemory::Refresh(const Refreshed& refreshed, float c_max,
                               size_t num_batches) {
  struct Updated {
    int64_t key;
    Episode* episode;
  };
  const size_t n = refreshed.n;
  std::vector<Updated> updated;
  std::vector<int32_t> slots;
  std::vector<float> errors;
  std::vector<int64_t> steps;
  updated.reserve(n);
  slots.reserve(n);
  errors.reserve(n);
  std::lock_guard<std::mutex> lock(mutex_);
  if (c_max != c_max_) {
    c_max_ = c_max;
    near_ = NearPolicy(c_max);
    num_far_ = kNotCounted;
  }
  const size_t batch_size = n / num_batches;
  for (size_t i = 0; i < n; ++i) {
    const int64_t key = refreshed.keys[i];
    if (Episode* const episode = Find(key)) {
      Store(*episode, key - episode->key, refreshed, i);
      updated.push_back({key, episode});
      slots.push_back(episode->slots[key - episode->key]);
      errors.push_back(refreshed.errors[i]);
    }
    if (i % batch_size != batch_size - 1) continue;
    distribution_->Update(slots.data(), errors.data(), slots.size());
    slots.clear();
    errors.clear();
  }
  std::sort(updated.begin(), updated.end(),
            [](const Updated& a, const Updated& b) { return a.key > b.key; });
  for (size_t begin = 0, end = 0; begin < updated.size(); begin = end) {
    Episode& episode = *updated[begin].episode;
    steps.clear();
    for (; end < updated.size() && updated[end].episode == &episode; ++end) {
      steps.push_back(updated[end].key - episode.key);
    }
    Sweep(episode, steps.data(), steps.size());
  }
  if (++refreshs_ == kRecountPeriod) {
    sum_of_divergences_ = SumDivergences();
    refreshs_ = 0;
  }
  const int64_t missing = n - updated.size();
  statistics_.updated += updated.size();
  statistics_.missing += missing;
  return missing;
}

void EpisodeMemory::Read(const int64_t* keys, size_t n,
                         float* stored) const {
  static constexpr std::vector<float> Episode::*kKinds[kStored] = {
      &Episode::values, &Episode::rhos,  &Episode::divergences,
      &Episode::errors, &Episode::q_ret, &Episode::advantages};
  std::fill_n(stored, kStored * n, std::numeric_limits<float>::quiet_NaN());
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < n; ++i) {
    const Episode* const episode = Find(keys[i]);
    if (episode == nullptr) continue;
    for (int64_t k = 0; k < kStored; ++k) {
      stored[k * n + i] = (episode->*kKinds[k])[keys[i] - episode->key];
    }
  }
}

double EpisodeMemory::RewardScale() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (num_steps_ == 0) return 0.0;
  double sum = 0;
  for (const auto& episode : episodes_) {
    for (const double reward : episode->rewards) sum += reward * reward;
  }
  return std::sqrt(sum / num_steps_);
}

void EpisodeMemory::SetRewardScale(double scale, bool recompute) {
  std::lock_guard<std::mutex> lock(mutex_);
  reward_factor_ =
      scale > 0 ? static_cast<float>(1.0 / (scale + kSmallestScale)) : 1.0f;
  if (!recompute) return;
  for (const auto& episode : episodes_) {
    episode->settled = -1;
    const int64_t last = episode->num_steps - 1;
    Sweep(*episode, &last, 1);
  }
}

void EpisodeMemory::Moments(size_t column, size_t num_elements, double* mean,
                            double* deviation) const {
  std::lock_guard<std::mutex> lock(mutex_);
  // An episode has one more state than steps.
  const size_t num_states = num_steps_ + episodes_.size();
  // Writes the mean of function(value, element) over all states.
  const auto average = [&](double* means, auto function) {
    std::fill_n(means, num_elements, 0.0);
    for (const auto& episode : episodes_) {
      for (const int32_t slot : episode->slots) {
        const char* value = rows_.Value(slot, column);
        for (size_t d = 0; d < num_elements; ++d, value += sizeof(float)) {
          float x;
          std::memcpy(&x, value, sizeof(x));
          means[d] += function(x, d);
        }
      }
    }
    for (size_t d = 0; d < num_elements && num_states > 0; ++d) {
      means[d] /= num_states;
    }
  };
  average(mean, [](double x, size_t) { return x; });
  average(deviation, [&](double x, size_t d) {
    return (x - mean[d]) * (x - mean[d]);
  });
  for (size_t d = 0; d < num_elements; ++d) deviation[d] = std::sqrt(deviation[d]);
}

void EpisodeMemory::CountSteps(int64_t n) {
  std::lock_guard<std::mutex> lock(mutex_);
  statistics_.executed += n;
}

EpisodeMemory::Statistics EpisodeMemory::statistics() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (num_far_ == kNotCounted) num_far_ = CountFar();
  Statistics statistics = statistics_;
  statistics.steps = num_steps_;
  statistics.episodes = episodes_.size();
  statistics.held_bytes = rows_.held_bytes();
  statistics.far_policy = num_far_;
  statistics.mean_divergence =
      num_steps_ == 0 ? 0.0 : sum_of_divergences_ / num_steps_;
  return statistics;
}

bool EpisodeMemory::Reserve(size_t num_steps, std::vector<int32_t>* slots) {
  // Episodes that other calls are writing cannot be removed.
  if (reserved_ + num_steps > capacity_) return false;
  while (num_steps_ + reserved_ + num_steps > capacity_) {
    Remove(NextToRemove());
  }
  if (!rows_.Take(num_steps + 1, slots)) return false;
  reserved_ += num_steps;
  return true;
}

EpisodeMemory::Episodes::iterator EpisodeMemory::NextToRemove() {
  if (removal_ == Removal::kOldest) return episodes_.begin();
  std::vector<double> scores;
  for (const auto& episode : episodes_) {
    double sum = 0;
    if (removal_ == Removal::kFarPolicy) {
      sum = CountFar(*episode);
    } else {
      for (const float divergence : episode->divergences) sum += divergence;
    }
    scores.push_back(sum / episode->num_steps);
  }
  // Of equal scores, this finds the first, which is the oldest episode's.
  const auto largest = std::max_element(scores.begin(), scores.end());
  return episodes_.begin() + (largest - scores.begin());
}

void EpisodeMemory::Remove(Episodes::iterator place) {
  std::unique_ptr<Episode> episode = std::move(*place);
  episodes_.erase(place);
  distribution_->Erase(episode->slots.data(), episode->num_steps);
  num_steps_ -= episode->num_steps;
  statistics_.removed += episode->num_steps;
  if (num_far_ != kNotCounted) num_far_ -= CountFar(*episode);
  for (const float divergence : episode->divergences) {
    sum_of_divergences_ -= divergence;
  }
  if (episodes_.empty()) sum_of_divergences_ = 0;
  if (episode->pins == 0) {
    Release(*episode);
  } else {
    // The last reader deletes the episode.
    episode.release()->is_removed = true;
  }
}

void EpisodeMemory::Release(const Episode& episode) {
  // In reverse, so that the next episode takes the slots in the same order.
  const std::vector<int32_t>& slots = episode.slots;
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    rows_.Release(*slot);
  }
}

void EpisodeMemory::Unpin(const std::vector<Episode*>& episodes) {
  for (Episode* const episode : episodes) {
    if (--episode->pins > 0 || !episode->is_removed) continue;
    Release(*episode);
    delete episode;
  }
}

EpisodeMemory::Episode* EpisodeMemory::Find(int64_t key) const {
  auto after = std::upper_bound(
      episodes_.begin(), episodes_.end(), key,
      [](int64_t key, const auto& episode) { return key < episode->key; });
  if (after == episodes_.begin()) return nullptr;
  Episode* const episode = (after - 1)->get();
  return key - episode->key < episode->num_steps ? episode : nullptr;
}

void EpisodeMemory::Store(Episode& episode, int64_t t,
                          const Refreshed& refreshed, size_t i) {
  const float rho = refreshed.rhos[i];
  if (num_far_ != kNotCounted) {
    num_far_ += near_.Contains(episode.rhos[t]) - near_.Contains(rho);
  }
  sum_of_divergences_ += static_cast<double>(refreshed.divergences[i]) -
                         episode.divergences[t];
  episode.values[t] = refreshed.values[i];
  episode.advantages[t] = refreshed.advantages[i];
  episode.rhos[t] = rho;
  episode.divergences[t] = refreshed.divergences[i];
  episode.errors[t] = refreshed.errors[i];
  if (t == episode.num_steps - 1 && !episode.terminated) {
    episode.values[t + 1] = refreshed.next_values[i];
  }
}

void EpisodeMemory::Sweep(Episode& episode, const int64_t* updated, size_t n) {
  if (episode.reward_factor != reward_factor_) {
    episode.reward_factor = reward_factor_;
    episode.settled = -1;
  }
  const int64_t settled = episode.settled;
  float* const q_ret = episode.q_ret.data();
  size_t next = 0;
  for (int64_t last = updated[0]; last >= 0;) {
    const int64_t first = std::max<int64_t>(0, last - (kBlock - 1));
    const float before = q_ret[first];
    SweepBlock(episode, first, last, q_ret);
    last = first - 1;
    if (!SameBits(q_ret[first], before) || last > settled) continue;
    // No Q from here to the next updated step would change.
    while (next < n && updated[next] > first) ++next;
    last = next < n ? updated[next] - 1 : -1;
  }
  episode.settled = std::max(settled, updated[0]);
}

void EpisodeMemory::SweepBlock(const Episode& episode, int64_t first,
                               int64_t last, float* q_ret) const {
  // Q_t = a_t + b_t Q_t+1: first the vectors a and b, then a short chain.
  float a[kBlock], b[kBlock];
  const int64_t n = last - first + 1;
  const float* const rewards = episode.rewards.data() + first;
  const float* const values = episode.values.data() + first + 1;
  const float* const advantages = episode.advantages.data() + first + 1;
  const float* const rhos = episode.rhos.data() + first + 1;
  const float factor = episode.reward_factor, discount = discount_;
  // The weights come first. Otherwise the compiler branches on rho < 1, which
  // cannot be predicted.
  for (int64_t i = 0; i < n; ++i) b[i] = std::min(rhos[i], 1.0f);
  for (int64_t i = 0; i < n; ++i) {
    const float action_value = values[i] + advantages[i];
    a[i] = rewards[i] * factor + discount * (values[i] - b[i] * action_value);
    b[i] *= discount;
  }
  float q = q_ret[last + 1];
  for (int64_t i = n - 1; i >= 0; --i) {
    q = a[i] + b[i] * q;
    q_ret[first + i] = q;
  }
}

int64_t EpisodeMemory::CountFar(const Episode& episode) const {
  const float* const rhos = episode.rhos.data();
  const int32_t n = static_cast<int32_t>(episode.num_steps);
  int32_t num_near = 0;
  for (int32_t t = 0; t < n; ++t) num_near += near_.Contains(rhos[t]);
  return n - num_near;
}

int64_t EpisodeMemory::CountFar() const {
  int64_t sum = 0;
  for (const auto& episode : episodes_) sum += CountFar(*episode);
  return sum;
}

double EpisodeMemory::SumDivergences() const {
  double sum = 0;
  for (const auto& episode : episodes_) {
    for (const float divergence : episode->divergences) sum += divergence;
  }
  return sum;
}

void EpisodeMemory::CheckInvariants() const {
  std::lock_guard<std::mutex> lock(mutex_);
  CheckStructure();
  for (const auto& episode : episodes_) {
    std::vector<float> q_ret = episode->q_ret;
    for (int64_t t = episode->settled; t >= 0; --t) {
      SweepBlock(*episode, t, t, q_ret.data());
      Ensure(SameBits(q_ret[t], episode->q_ret[t]), "episode", episode->key,
             ": a stale Q");
    }
  }
  const double sum = SumDivergences();
  Ensure(std::abs(sum - sum_of_divergences_) <= 1e-6 * (1 + std::abs(sum)),
         "episodes: wrong sum of divergences");
}

void EpisodeMemory::CheckStructure() const {
  const std::vector<int32_t>& free_slots = rows_.free_slots();
  std::vector<bool> is_used(rows_.num_slots());
  std::vector<int64_t> keys(rows_.num_slots(), kNoItem);  // Keys of steps.
  size_t num_steps = 0, num_used = free_slots.size() + reserved_;
  int64_t key = -1;
  const auto use = [&](int32_t slot, const char* broken) {
    Ensure(!is_used[slot], "slot", slot, broken);
    is_used[slot] = true;
  };
  for (const int32_t slot : free_slots) use(slot, " is free twice");
  for (const auto& episode : episodes_) {
    CheckEpisode(*episode);
    Ensure(episode->key > key, "episodes: keys out of order or shared");
    for (int64_t t = 0; t < episode->num_steps; ++t) {
      key = keys[episode->slots[t]] = episode->key + t;
    }
    for (const int32_t slot : episode->slots) use(slot, " is used twice");
    num_steps += episode->num_steps;
    num_used += episode->slots.size();
  }
  Ensure(key < next_key_ && next_key_ <= kMaxCount,
         "episodes: the next key is in use");
  Ensure(num_steps == num_steps_, "episodes: steps miscounted");
  Ensure(num_steps_ + reserved_ <= capacity_, "episodes: above the capacity");
  Ensure(num_used <= rows_.num_slots(), "episodes: too many slots in use");
  Ensure(num_far_ == kNotCounted || num_far_ == CountFar(),
         "episodes: far steps miscounted");
  Ensure(std::isfinite(sum_of_divergences_) && c_max_ >= 1 &&
             reward_factor_ > 0 && 0 <= refreshs_ && refreshs_ < kRecountPeriod,
         "episodes: a number is out of range");
  const Statistics& s = statistics_;
  for (const int64_t counter :
       {s.executed, s.removed, s.sampled, s.updated, s.missing}) {
    Ensure(0 <= counter && counter <= kMaxCount, "a counter is out of range");
  }
  distribution_->CheckInvariants(keys);
  if (reserved_ == 0) rows_.CheckInvariants();
}

void EpisodeMemory::CheckEpisode(const Episode& episode) const {
  const int64_t n = episode.num_steps;
  const auto ensure = [&](bool holds, const char* broken) {
    Ensure(holds, "episode", episode.key, broken);
  };
  ensure(n >= 1 && static_cast<int64_t>(episode.slots.size()) == n + 1,
         ": wrong number of slots");
  ensure(!episode.is_removed && episode.pins >= 0, ": it is removed");
  ensure(-1 <= episode.settled && episode.settled < n,
         ": settled out of range");
  for (int64_t t = 0; t <= n; ++t) {
    const Place& place = places_[episode.slots[t]];
    ensure(place.episode == &episode && place.t == t && !place.is_drawn,
           ": slot and place disagree");
  }
  ensure(episode.rhos[n] == 0 && episode.advantages[n] == 0 &&
             episode.q_ret[n] == 0 &&
             (!episode.terminated || episode.values[n] == 0),
         ": its end has changed");
  for (const auto array : Episode::kArrays) {
    for (const float number : episode.*array) {
      ensure(std::isfinite(number) || array == &Episode::q_ret,
             ": a number is not finite");
    }
  }
}

}  // namespace replay
