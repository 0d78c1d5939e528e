// The saving and loading of `EpisodeMemory`.
#include <memory>
#include <utility>
#include <vector>

#include "episode_memory.h"

namespace replay {

void EpisodeMemory::Save(FileWriter& file) {
  std::lock_guard<std::mutex> one(saves_);
  Writer structures;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    SaveStructures(structures);
  }
  structures.MakeRoom();
  uint64_t num_rows;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    SaveStructures(structures);
    num_rows = num_steps_ + episodes_.size();
    std::vector<bool> is_stored(next_unused_);
    for (const auto& episode : episodes_) {
      for (const int32_t slot : episode->slots) is_stored[slot] = true;
    }
    unsaved_.Begin(std::move(is_stored));
  }
  const auto episode_of = [&](int32_t slot) { return places_[slot].episode; };
  unsaved_.Write(
      num_rows, file, mutex_,
      [&](int32_t slot) { ++episode_of(slot)->pins; },
      [&](const std::vector<int32_t>& slots) {
        std::vector<Episode*> episodes;
        for (const int32_t slot : slots) episodes.push_back(episode_of(slot));
        Unpin(episodes);
      });
  file.Write(structures.bytes().data(), structures.bytes().size());
}

void EpisodeMemory::SaveStructures(Writer& writer) const {
  writer.Value(next_unused_);
  writer.Vector(free_);
  rows_.SaveSizes(free_, writer);
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
    writer.Value(episode->terminated);
    writer.Value(episode->settled);
    writer.Value(episode->reward_factor);
    writer.Array(episode->slots.data(), episode->slots.size());
    for (const auto array : Episode::kArrays) {
      writer.Array(((*episode).*array).data(), episode->slots.size());
    }
  }
}

void EpisodeMemory::Load(FileReader& file) {
  Reader reader(file);
  rows_.Load(reader);
  next_unused_ = reader.Count(max_slots_);
  reader.Vector(free_);
  rows_.LoadSizes(free_, reader);
  reader.Value(next_key_);
  reader.Value(rng_);
  reader.Value(reward_factor_);
  reader.Value(c_max_);
  near_ = NearPolicy(c_max_);
  reader.Value(num_far_);
  reader.Value(sum_of_divergences_);
  reader.Value(refreshs_);
  reader.Value(statistics_);
  distribution_->Load(reader, next_unused_);
  std::vector<bool> is_known(next_unused_);
  for (const int32_t slot : free_) is_known[slot] = true;
  for (size_t left = reader.Count(capacity_); left > 0; --left) {
    LoadEpisode(reader);
    for (const int32_t slot : episodes_.back()->slots) is_known[slot] = true;
  }
  for (size_t slot = 0; slot < next_unused_; ++slot) {
    // A call was writing to the slot, or still reading it.
    if (!is_known[slot]) free_.push_back(static_cast<int32_t>(slot));
  }
}

void EpisodeMemory::LoadEpisode(Reader& reader) {
  auto episode = std::make_unique<Episode>(reader.Count(capacity_));
  reader.Value(episode->key);
  reader.Value(episode->terminated);
  reader.Value(episode->settled);
  reader.Value(episode->reward_factor);
  const size_t num_states = episode->num_steps + 1;
  episode->slots.resize(num_states);
  reader.Array(episode->slots.data(), num_states);
  for (const auto array : Episode::kArrays) {
    reader.Array(((*episode).*array).data(), num_states);
  }
  for (size_t t = 0; t < num_states; ++t) {
    places_[episode->slots[t]] = {episode.get(), static_cast<int32_t>(t), false};
  }
  num_steps_ += episode->num_steps;
  episodes_.push_back(std::move(episode));
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
