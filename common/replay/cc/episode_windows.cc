// The drawing of windows of whole episodes from `EpisodeMemory`.
#include <algorithm>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "episode_memory.h"

namespace replay {

EpisodeMemory::Outcome EpisodeMemory::SampleEpisodes(
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
    if (episodes_.size() < batch_size) return Outcome::kTooFewEpisodes;
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
  return Outcome::kOk;
}

void EpisodeMemory::DrawEpisodes(size_t n, std::mt19937_64& rng,
                                 std::vector<Episode*>* episodes) {
  // The first n of a shuffle, of which only the moved elements are kept.
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
