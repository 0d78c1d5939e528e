// Saving and loading of `EpisodeMemory`.
#include <memory>
#include <tuple>
#include <vector>

#include "episode_memory.h"

namespace replay {

void EpisodeMemory::Save(FileWriter& file) {
  rows_.Save(file, mutex_, [&](Writer& writer) {
    writer.Value(rows_.num_slots());
    writer.Vector(rows_.free_slots());
    writer.Value(next_key_);
    writer.Value(rng_);
    std::apply([&](const auto&... member) { (writer.Value(member), ...); },
               PlainMembers());
    distribution_->Save(writer, rows_.num_slots());
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
    return IsStored();
  });
}

void EpisodeMemory::Load(FileReader& file) {
  rows_.LoadNumSlots(file);
  rows_.LoadFreeSlots(file);
  next_key_ = file.Count(kMaxCount);
  file.Generator(rng_);
  std::apply([&](auto&... member) { (file.Value(member), ...); },
             PlainMembers());
  near_ = NearPolicy(c_max_);
  distribution_->Load(file, rows_.num_slots());
  for (size_t left = file.Count(capacity_); left > 0; --left) LoadEpisode(file);
  rows_.Load(file, IsStored());
  file.RequireInvariants([this] { CheckStructure(); });
}

void EpisodeMemory::LoadEpisode(FileReader& file) {
  const size_t num_steps = file.Count(capacity_ - num_steps_);
  auto episode = std::make_unique<Episode>(num_steps);
  episode->key = file.Count(next_key_);
  episode->terminated = file.Count(1);
  file.Value(episode->settled);
  file.Value(episode->reward_factor);
  episode->slots.resize(num_steps + 1);
  file.Indices(episode->slots.data(), num_steps + 1, rows_.num_slots());
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
  std::vector<bool> is_stored(rows_.num_slots());
  for (const auto& episode : episodes_) {
    for (const int32_t slot : episode->slots) is_stored[slot] = true;
  }
  return is_stored;
}

}  // namespace replay
