// Sampling of steps, and of windows of episodes, from `EpisodeMemory`.
#include <algorithm>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "episode_memory.h"

namespace replay {

bool EpisodeMemory::Sample(size_t batch_size, size_t num_batches, uint64_t seed,
                           const Drawn& drawn, int64_t* count) {
  std::optional<std::mt19937_64> own;
  if (seed != 0) own.emplace(seed);
  const size_t n = batch_size * num_batches;
  std::vector<int32_t> slots(n), windows;
  windows.reserve(n * (drawn.history + 2));
  std::vector<Episode*> episodes(n);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    *count = num_steps_;
    if (num_steps_ < batch_size) return false;
    for (size_t begin = 0; begin < n; begin += batch_size) {
      DrawBatch(batch_size, own ? *own : rng_, &slots[begin],
                drawn.probabilities + begin);
    }
    const double total_mass = distribution_->total_mass();
    for (size_t i = 0; i < n; ++i) {
      const Place& place = places_[slots[i]];
      Episode& episode = *place.episode;
      const int64_t t = place.t;
      const bool is_last = t == episode.num_steps - 1;
      drawn.keys[i] = episode.key + t;
      drawn.probabilities[i] /= total_mass;
      drawn.rewards[i] = episode.rewards[t] * reward_factor_;
      drawn.discounts[i] = is_last && episode.terminated ? 0.0f : discount_;
      drawn.bootstraps[i] = is_last && !episode.terminated;
      drawn.q_ret[i] = episode.q_ret[t];
      const float value = episode.values[t];
      drawn.v_tbc[i] =
          value + std::min(1.0f, episode.rhos[t]) *
                      (episode.q_ret[t] - value - episode.advantages[t]);
      episodes[i] = &episode;
      ++episode.pins;
      drawn.lengths[i] = static_cast<int32_t>(std::min(t, drawn.history));
      for (int64_t k = t - drawn.history; k <= t + 1; ++k) {
        windows.push_back(episode.slots[std::max<int64_t>(k, 0)]);
      }
    }
    statistics_.sampled += n;
  }
  rows_.Copy(windows, drawn.columns);
  std::lock_guard<std::mutex> lock(mutex_);
  Unpin(episodes);
  return true;
}

void EpisodeMemory::DrawBatch(size_t n, std::mt19937_64& rng, int32_t* slots,
                              double* masses) {
  // Redrawing repeated steps has the same distribution as drawing from the steps
  // not drawn yet. If many rounds are needed, the batch has a large part of the
  // mass, and the rest is drawn without rejection.
  constexpr int kRounds = 16;
  size_t num_drawn = 0;
  for (int round = 0; round < kRounds && num_drawn < n; ++round) {
    distribution_->Sample(n - num_drawn, rng, slots + num_drawn,
                          masses + num_drawn);
    for (size_t i = num_drawn; i < n; ++i) {
      Place& place = places_[slots[i]];
      if (place.is_drawn) continue;
      place.is_drawn = true;
      slots[num_drawn] = slots[i];
      masses[num_drawn++] = masses[i];
    }
  }
  if (num_drawn < n) {
    DrawRest(n - num_drawn, rng, slots + num_drawn, masses + num_drawn);
  }
  for (size_t i = 0; i < n; ++i) places_[slots[i]].is_drawn = false;
}

void EpisodeMemory::DrawRest(size_t n, std::mt19937_64& rng, int32_t* slots,
                             double* masses) {
  std::vector<int32_t> rest;
  for (const auto& episode : episodes_) {
    for (int64_t t = 0; t < episode->num_steps; ++t) {
      const int32_t slot = episode->slots[t];
      if (!places_[slot].is_drawn) rest.push_back(slot);
    }
  }
  std::vector<double> all_masses(rest.size());
  distribution_->Masses(rest.data(), rest.size(), all_masses.data());
  // Exponential times with the masses as rates, sorted, give the order of draws
  // without replacement (Efraimidis and Spirakis 2006).
  std::exponential_distribution<double> time;
  std::vector<std::pair<double, size_t>> times;
  for (size_t i = 0; i < rest.size(); ++i) {
    times.emplace_back(time(rng) / all_masses[i], i);
  }
  std::partial_sort(times.begin(), times.begin() + n, times.end());
  for (size_t i = 0; i < n; ++i) {
    slots[i] = rest[times[i].second];
    masses[i] = all_masses[times[i].second];
  }
}

bool EpisodeMemory::SampleEpisodes(
    size_t batch_size, size_t num_batches, size_t max_steps, uint64_t seed,
    const Windows& windows,
    const std::function<bool(size_t longest, WindowSteps* steps)>& make_room,
    int64_t* count) {
  std::optional<std::mt19937_64> own;
  if (seed != 0) own.emplace(seed);
  const size_t n = batch_size * num_batches;
  std::vector<Episode*> episodes;
  std::vector<size_t> firsts;
  float factor;
  size_t longest = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    *count = episodes_.size();
    if (episodes_.size() < batch_size) return false;
    std::mt19937_64& rng = own ? *own : rng_;
    for (size_t b = 0; b < num_batches; ++b) {
      DrawEpisodes(batch_size, rng, &episodes);
    }
    for (size_t i = 0; i < n; ++i) {
      Episode& episode = *episodes[i];
      const size_t num_steps = episode.num_steps;
      const size_t length = std::min(num_steps, max_steps);
      std::uniform_int_distribution<size_t> step(0, num_steps - 1);
      const size_t first = std::min(step(rng), num_steps - length);
      windows.keys[i] = episode.key + first;
      windows.lengths[i] = length;
      windows.bootstraps[i] =
          first + length < num_steps || !episode.terminated;
      firsts.push_back(first);
      longest = std::max(longest, length);
      ++episode.pins;
    }
    factor = reward_factor_;
    statistics_.sampled += n;
  }
  WindowSteps steps;
  if (make_room(longest, &steps)) {
    std::vector<int32_t> slots;
    slots.reserve(n * (longest + 1));
    for (size_t i = 0; i < n; ++i) {
      const Episode& episode = *episodes[i];
      const size_t padding = longest - windows.lengths[i];
      for (size_t t = 0; t <= longest; ++t) {
        const size_t step = firsts[i] + (t > padding ? t - padding : 0);
        slots.push_back(episode.slots[step]);
        if (t < longest) *steps.rewards++ = episode.rewards[step] * factor;
      }
    }
    rows_.Copy(slots, steps.columns);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  Unpin(episodes);
  return true;
}

void EpisodeMemory::DrawEpisodes(size_t n, std::mt19937_64& rng,
                                 std::vector<Episode*>* episodes) {
  // The first n elements of a shuffle that stores only the moved elements.
  std::unordered_map<size_t, size_t> moved;
  const auto at = [&](size_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  for (size_t i = 0; i < n; ++i) {
    std::uniform_int_distribution<size_t> place(i, episodes_.size() - 1);
    const size_t j = place(rng);
    episodes->push_back(episodes_[at(j)].get());
    moved[j] = at(i);
  }
}

}  // namespace replay
