// The saving and loading of `EpisodeMemory`.
#include <memory>
#include <utility>
#include <vector>

#include "episode_memory.h"

namespace replay {

void EpisodeMemory::Save(FileWriter& file) {
  rows_.Save(file, mutex_, [&](Writer& writer) {
    SaveStructures(writer);
    return IsStored();
  });
}

void EpisodeMemory::SaveStructures(Writer& writer) const {
  writer.Value(next_unused_);
  writer.Vector(free_);
  writer.Value(next_key_);
  writer.Value(rng_);
  writer.Value(reward_factor_);
  writer.Value(c_max_);
  writer.Value(num_far_);
  writer.Value(sum_of_divergences_);
  writer.Value(refreshs_);
  writer.Value(statistics_);
  distribution_->Save(writer, next_unused_);
  writer.Value<uint64_t>(episodes_.size());
  for (const auto& episode : episodes_) {
    writer.Value(episode->num_steps);
    writer.Value(episode->key);
    writer.Value<uint64_t>(episode->terminated);
    writer.Value(episode->settled);
    writer.Value(episode->reward_factor);
    writer.Array(episode->slots.data(), episode->slots.size());
    for (const auto array : Episode::kArrays) {
      writer.Array(((*episode).*array).data(), episode->slots.size());
    }
  }
}

void EpisodeMemory::Load(FileReader& file) {
  LoadStructures(file);
  rows_.Load(file, IsStored());
  file.RefuseIf(CheckStructure());
}

void EpisodeMemory::LoadStructures(FileReader& file) {
  next_unused_ = file.Count(max_slots_);
  free_.resize(file.Count(next_unused_));
  file.Indices(free_.data(), free_.size(), next_unused_);
  next_key_ = file.Count(kMaxCount);
  file.Generator(rng_);
  file.Value(reward_factor_);
  file.Value(c_max_);
  near_ = NearPolicy(c_max_);
  file.Value(num_far_);
  file.Value(sum_of_divergences_);
  file.Value(refreshs_);
  file.Value(statistics_);
  distribution_->Load(file, next_unused_);
  for (size_t left = file.Count(capacity_); left > 0; --left) LoadEpisode(file);
  std::vector<bool> is_known = IsStored();
  for (const int32_t slot : free_) is_known[slot] = true;
  for (size_t slot = 0; slot < next_unused_; ++slot) {
    // A call was writing to the slot, or still reading it.
    if (!is_known[slot]) free_.push_back(static_cast<int32_t>(slot));
  }
}

void EpisodeMemory::LoadEpisode(FileReader& file) {
  const size_t num_steps = file.Count(capacity_ - num_steps_);
  auto episode = std::make_unique<Episode>(num_steps);
  episode->key = file.Count(next_key_);
  episode->terminated = file.Count(1);
  file.Value(episode->settled);
  file.Value(episode->reward_factor);
  episode->slots.resize(num_steps + 1);
  file.Indices(episode->slots.data(), num_steps + 1, next_unused_);
  for (const auto array : Episode::kArrays) {
    file.Array(((*episode).*array).data(), num_steps + 1);
  }
  for (size_t t = 0; t <= num_steps; ++t) {
    places_[episode->slots[t]] = {episode.get(), static_cast<int32_t>(t), false};
  }
  num_steps_ += num_steps;
  episodes_.push_back(std::move(episode));
}

std::vector<bool> EpisodeMemory::IsStored() const {
  std::vector<bool> is_stored(next_unused_);
  for (const auto& episode : episodes_) {
    for (const int32_t slot : episode->slots) is_stored[slot] = true;
  }
  return is_stored;
}

bool EpisodeMemory::SwapIfEmpty(EpisodeMemory& other) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (free_.size() != next_unused_) return false;
  rows_.swap(other.rows_);
  episodes_.swap(other.episodes_);
  places_.swap(other.places_);
  free_.swap(other.free_);
  std::swap(next_unused_, other.next_unused_);
  std::swap(num_steps_, other.num_steps_);
  std::swap(next_key_, other.next_key_);
  distribution_.swap(other.distribution_);
  std::swap(rng_, other.rng_);
  std::swap(reward_factor_, other.reward_factor_);
  std::swap(c_max_, other.c_max_);
  std::swap(near_, other.near_);
  std::swap(num_far_, other.num_far_);
  std::swap(sum_of_divergences_, other.sum_of_divergences_);
  std::swap(refreshs_, other.refreshs_);
  std::swap(statistics_, other.statistics_);
  return true;
}

}  // namespace replay
