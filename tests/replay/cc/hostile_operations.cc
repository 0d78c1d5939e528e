// Hostile operations on the C++ core of the replay memories, for the sanitizers.
//
//   hostile_operations [operations] [operations of each thread]
//
// `make sanitize` builds and runs it. Arguments are those that the checks of the
// ops let through. In the first part one thread calls many memories of all kinds,
// with fixed seeds. In the second part four threads call the same memory at once.
// Both check the answers: a copied step has the values of its key, counters fit
// together, and CheckInvariants throws nothing. Ends with an error at the first
// violation; else prints the counts in a line each for `Memory` and
// `EpisodeMemory`.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "episode_memory.h"
#include "memory.h"
#include "saved_file.h"

namespace replay {
namespace {

constexpr int64_t kLastKey = std::numeric_limits<int64_t>::max();
constexpr int32_t kLongest = std::numeric_limits<int32_t>::max();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
constexpr size_t kThreads = 4;

std::atomic<int64_t> nothing_to_sample, no_room, forged_refused, forged_loaded;
// Whether steps have the values of their keys, and numbers follow from others: not
// those of forged files.
bool values_are_known = true;

void Require(bool condition, const char* message) {
  if (condition) return;
  std::fprintf(stderr, "hostile_operations: violated: %s\n", message);
  std::_Exit(1);
}

// Writes a file by write(FileWriter) and returns its path.
template <typename Write>
std::string WriteFile(Write write) {
  static std::atomic<int> number{0};
  const std::string path =
      std::filesystem::temp_directory_path() /
      ("hostile_operations." + std::to_string(getpid()) + "." +
       std::to_string(number++));
  FileWriter writer(path, {"a memory"});
  write(writer);
  writer.Commit();
  return path;
}

// Removes a file and loads it into `loaded`. Throws FileError.
template <typename Memory>
void Load(const std::string& path, Memory& loaded) {
  FileReader reader(path, {"a memory"});
  Require(unlink(path.c_str()) == 0, "a saved file has its name");
  loaded.Load(reader);
  reader.Finish();
}

template <typename Memory>
std::string Save(Memory& memory) {
  return WriteFile([&](FileWriter& writer) { memory.Save(writer); });
}

// Removes a file and returns what its chunks hold, without the signature.
std::vector<char> ContentOf(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> file(std::istreambuf_iterator<char>(stream), {});
  unlink(path.c_str());
  std::vector<char> content;
  bool is_signature = true;
  uint64_t size;
  for (size_t place = 16; place < file.size(); place += 16 + size) {
    std::memcpy(&size, &file[place], sizeof(size));
    const auto begin = file.begin() + place + 16;
    if (!is_signature) content.insert(content.end(), begin, begin + size);
    is_signature = false;
  }
  return content;
}

// Saves a memory and changes numbers in the file, whose checksums are right then.
// Each such file is refused, or makes a memory that can be called.
template <typename Caller, typename Setup, typename Memory>
void Forge(const Setup& setup, Memory& memory, uint64_t seed) {
  constexpr int kForged = 20;
  std::mt19937_64 rng(seed);
  const std::vector<char> content = ContentOf(Save(memory));
  for (int i = 0; i < kForged; ++i) {
    std::vector<char> forged = content;
    for (size_t changes = 1 + rng() % 3; changes > 0; --changes) {
      const int64_t numbers[] = {0,
                                 -1,
                                 static_cast<int64_t>(rng() % 100),
                                 kLongest,
                                 kLastKey,
                                 -kLastKey - 1,
                                 int64_t{1} << rng() % 62,
                                 static_cast<int64_t>(rng())};
      const size_t bytes = size_t{1} << rng() % 4;
      const size_t place = rng() % (forged.size() / bytes) * bytes;
      std::memcpy(&forged[place], &numbers[rng() % 8], bytes);
    }
    if (rng() % 10 == 0) forged.resize(rng() % (2 * forged.size()));
    const std::string path = WriteFile([&](FileWriter& writer) {
      Writer bytes;
      bytes.Array(forged.data(), forged.size());
      writer.Write(bytes);
    });
    const std::unique_ptr<Memory> loaded = setup.New(1);
    try {
      Load(path, *loaded);
    } catch (const FileError&) {
      ++forged_refused;
      continue;
    }
    ++forged_loaded;
    values_are_known = false;
    Caller caller(setup, *loaded, false, rng());
    caller.Call(30);
    caller.Check();
    values_are_known = true;
  }
}

// Saves a memory and calls one that is loaded from the file.
template <typename Caller, typename Setup, typename Memory>
void SaveAndLoad(const Setup& setup, Memory& memory, bool alone, uint64_t seed) {
  const std::unique_ptr<Memory> loaded = setup.New(1);
  Load(Save(memory), *loaded);
  const auto ours = memory.statistics(), theirs = loaded->statistics();
  Require(!alone || std::memcmp(&ours, &theirs, sizeof(ours)) == 0,
          "a loaded memory has the counters of the saved one");
  Caller caller(setup, *loaded, true, seed);
  caller.Check();
  caller.Call(50);
  caller.Check();
}

// Calls a memory from several threads at once; returns its counters.
template <typename Caller, typename Setup>
auto Attack(const Setup& setup, size_t num_threads, size_t operations,
            uint64_t seed) {
  const auto memory = setup.New(seed);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < num_threads; ++i) {
    threads.emplace_back([&, i] {
      Caller(setup, *memory, num_threads == 1, seed + i).Call(operations);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Caller(setup, *memory, true, seed).Check();
  Forge<Caller>(setup, *memory, seed);
  return memory->statistics();
}

// The counters of all memories of a kind together.
template <typename Statistics>
class Totals {
 public:
  using Counter = std::pair<const char*, int64_t Statistics::*>;

  explicit Totals(std::vector<Counter> counters)
      : counters_(std::move(counters)) {
    nothing_to_sample = no_room = forged_refused = forged_loaded = 0;
  }

  void Add(const Statistics& statistics) {
    for (const auto& [_, counter] : counters_) {
      totals_.*counter += statistics.*counter;
    }
  }

  // Prints a line of all counts. That of `no_room` depends on the threads' timing.
  void Print(const char* of, size_t operations, size_t operations_of_each) const {
    std::printf("%s: %zu alone, %zu in each of %zu threads;", of, operations,
                operations_of_each, kThreads);
    const auto print = [](const char* name, int64_t count) {
      std::printf(" %s %lld,", name, static_cast<long long>(count));
    };
    for (const auto& [name, counter] : counters_) print(name, totals_.*counter);
    print("forged files refused", forged_refused);
    print("loaded", forged_loaded);
    print("nothing to sample", nothing_to_sample);
    std::printf(" no room %lld\n", static_cast<long long>(no_room));
  }

 private:
  const std::vector<Counter> counters_;
  Statistics totals_ = {};
};

// Requires that no key occurs twice in a batch.
void RequireDistinct(std::vector<int64_t> keys, size_t batch_size) {
  for (auto begin = keys.begin(); begin != keys.end(); begin += batch_size) {
    std::sort(begin, begin + batch_size);
    Require(std::adjacent_find(begin, begin + batch_size) == begin + batch_size,
            "nothing is drawn twice in a batch");
  }
}

// Rows to insert, or to copy to. The values of a step follow from its key.
class Values {
 public:
  static constexpr size_t kFixedBytes = 13;  // Odd: rows are packed.

  // Columns are of kFixedBytes, kVariable or 0 bytes.
  Values(const std::vector<size_t>& column_bytes, size_t n)
      : column_bytes_(column_bytes),
        fixed_(n * kFixedBytes, '?'),
        variable_(n, "?") {}

  // Gives row i the values of a step.
  void Set(size_t i, int64_t key) {
    std::memcpy(&fixed_[i * kFixedBytes], Fixed(key).data(), kFixedBytes);
    variable_[i] = Variable(key);
  }

  // Returns the key of row i, which has a fixed column.
  int64_t KeyOf(size_t i) const {
    int64_t key;
    std::memcpy(&key, &fixed_[i * kFixedBytes], sizeof(key));
    return key;
  }

  void RequireStep(size_t i, int64_t key) const {
    Require(!values_are_known || Has(i, Fixed(key), Variable(key)),
            "a step has the values of its key");
  }

  void RequireEmpty(size_t i) const {
    Require(Has(i, std::string(kFixedBytes, '\0'), ""),
            "an absent step has no values");
  }

  std::vector<ColumnSource> Sources() const {
    std::vector<ColumnSource> sources(column_bytes_.size());
    for (size_t c = 0; c < sources.size(); ++c) {
      if (column_bytes_[c] == kVariable) {
        sources[c].variable.assign(variable_.begin(), variable_.end());
      } else if (column_bytes_[c] > 0) {
        sources[c].fixed = fixed_.data();
      }
    }
    return sources;
  }

  std::vector<ColumnTarget> Targets() {
    std::vector<ColumnTarget> targets(column_bytes_.size());
    for (size_t c = 0; c < targets.size(); ++c) {
      if (column_bytes_[c] == kVariable) {
        targets[c].variable = [this](size_t i, std::string_view value) {
          variable_[i] = value;
        };
      } else if (column_bytes_[c] > 0) {
        targets[c].fixed = fixed_.data();
      }
    }
    return targets;
  }

 private:
  static std::string Fixed(int64_t key) {
    std::string value(kFixedBytes, '!');
    std::memcpy(value.data(), &key, sizeof(key));
    return value;
  }

  static std::string Variable(int64_t key) {
    const uint64_t number = static_cast<uint64_t>(key);
    return std::string(number % 40, static_cast<char>('a' + number % 26));
  }

  bool Has(size_t i, std::string_view fixed, std::string_view variable) const {
    for (const size_t bytes : column_bytes_) {
      if (bytes == kVariable && variable_[i] != variable) return false;
      if (bytes == kFixedBytes &&
          std::memcmp(&fixed_[i * kFixedBytes], fixed.data(), bytes) != 0) {
        return false;
      }
    }
    return true;
  }

  const std::vector<size_t>& column_bytes_;
  std::vector<char> fixed_;
  std::vector<std::string> variable_;
};

// The arguments of a memory, and the keys that it gets.
struct Setup {
  size_t capacity, hard_capacity;
  std::vector<size_t> column_bytes;
  std::vector<DistributionSpec> distributions;
  size_t removal;
  int64_t first_key;

  size_t num_keys() const { return 2 * hard_capacity + 10; }
  // Under a positive exponent "proportional" alone never draws an item of
  // priority 0.
  bool can_remove_all() const {
    const DistributionSpec& spec = distributions[removal];
    return spec.exponent <= 0 || spec.uniform_mix > 0 ||
           spec.kind == "contextual" || spec.kind == "rank_based";
  }
  std::unique_ptr<Memory> New(uint64_t seed) const {
    return std::make_unique<Memory>(capacity, hard_capacity, column_bytes,
                                    distributions, removal, seed);
  }
};

// A caller of random operations with random arguments.
class Caller {
 public:
  // `alone`: no other thread calls the memory.
  Caller(const Setup& setup, Memory& memory, bool alone, uint64_t seed)
      : setup_(setup), memory_(memory), alone_(alone), rng_(seed) {}

  void Call(size_t operations) {
    for (size_t i = 0; i < operations; ++i) {
      const size_t kind = Below(1000);
      if (kind < 400) {
        Insert();
      } else if (kind < 600) {
        Sample();
      } else if (kind < 800) {
        Update();
      } else if (kind < 850) {
        Read();
      } else if (kind < 900) {
        Masses();
      } else if (kind < 997) {
        RemoveToFit();
      } else if (kind < 998) {
        SaveAndLoad<Caller>(setup_, memory_, alone_, rng_());
      } else {
        Check();
      }
    }
  }

  void Check() {
    memory_.CheckInvariants();
    const Memory::Statistics statistics = memory_.statistics();
    Require(statistics.inserted - statistics.removed == statistics.items &&
                0 <= statistics.items && statistics.items <= statistics.steps &&
                statistics.steps <= Size(setup_.hard_capacity) &&
                statistics.held_bytes >= 0,
            "the counters fit together");
  }

 private:
  void Insert() {
    const std::vector<int64_t> keys =
        Keys(OneIn(20) ? setup_.hard_capacity + Below(3) : Below(12));
    const std::vector<int64_t> item_keys = OneIn(2) ? keys : Keys(Below(12));
    const size_t num_items = item_keys.size();
    const std::vector<float> priorities = Priorities(num_items);
    std::vector<int32_t> lengths;
    for (const int64_t key : item_keys) lengths.push_back(Length(key));
    Values values(setup_.column_bytes, keys.size());
    for (size_t i = 0; i < keys.size(); ++i) values.Set(i, keys[i]);
    const bool has_room = memory_.Insert(
        {keys.size(), keys.data(), values.Sources()},
        {num_items, item_keys.data(), OneIn(3) ? nullptr : lengths.data(),
         priorities.data()});
    no_room += !has_room;
    Require(has_room || !alone_ || !setup_.can_remove_all() ||
                keys.size() > setup_.hard_capacity,
            "there is room for as many steps as the memory holds");
  }

  void Sample() {
    const size_t distribution = Below(setup_.distributions.size());
    const size_t n = OneOf<size_t>({0, 1, 7, 64});
    const size_t length = OneOf<size_t>({1, 1, 3, 40});
    std::vector<int64_t> keys(n);
    std::vector<double> masses(n);
    std::vector<int32_t> lengths(n);
    double total_mass;
    int64_t count;
    memory_.Masses(distribution, nullptr, 0, nullptr, nullptr, &total_mass,
                   &count);
    const bool has_mass = total_mass > 0;
    Values values(setup_.column_bytes, n * length);
    const bool is_drawn = memory_.Sample(
        distribution, n, length, Below(3), keys.data(), masses.data(),
        lengths.data(), &total_mass, &count, values.Targets());
    Require(is_drawn == has_mass || !alone_,
            "a memory of some mass can be sampled");
    if (!is_drawn) {
      ++nothing_to_sample;
      return;
    }
    Require(std::isfinite(total_mass) && count > 0, "the total is finite");
    for (size_t i = 0; i < n; ++i) {
      Require(masses[i] > 0 && masses[i] <= total_mass && lengths[i] > 0,
              "drawn items have mass and length");
      for (size_t t = 0; t < length; ++t) {
        if (Size(t) < lengths[i]) {
          values.RequireStep(i * length + t, keys[i] + Size(t));
        } else {
          values.RequireEmpty(i * length + t);
        }
      }
    }
  }

  void Update() {
    const std::vector<int64_t> keys = Keys(Below(40));
    const std::vector<float> priorities = Priorities(keys.size());
    const int64_t missing =
        memory_.UpdatePriorities(keys.data(), priorities.data(), keys.size());
    Require(0 <= missing && missing <= Size(keys.size()),
            "no more keys are missing than were given");
  }

  void Read() {
    const std::vector<int64_t> keys = Keys(Below(20));
    const auto found = std::make_unique<bool[]>(keys.size());
    Values values(setup_.column_bytes, keys.size());
    memory_.Read(keys.data(), keys.size(), found.get(), values.Targets());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (found[i]) {
        values.RequireStep(i, keys[i]);
      } else {
        values.RequireEmpty(i);
      }
    }
  }

  void Masses() {
    const size_t distribution = Below(setup_.distributions.size());
    const std::vector<int64_t> keys = Keys(Below(20));
    const auto found = std::make_unique<bool[]>(keys.size());
    std::vector<double> masses(keys.size());
    double total_mass;
    int64_t count;
    memory_.Masses(distribution, keys.data(), keys.size(), found.get(),
                   masses.data(), &total_mass, &count);
    for (size_t i = 0; i < keys.size(); ++i) {
      Require(masses[i] >= 0 && (found[i] || masses[i] == 0),
              "only items have mass");
      Require(masses[i] <= total_mass || !alone_,
              "no mass is above the total mass");
    }
  }

  void RemoveToFit() {
    memory_.RemoveToFit();
    Require(!alone_ || !setup_.can_remove_all() ||
                memory_.statistics().steps <= Size(setup_.capacity),
            "RemoveToFit leaves as many steps as the capacity");
  }

  std::vector<int64_t> Keys(size_t n) {
    std::vector<int64_t> keys;
    const bool consecutive = !OneIn(4);
    for (size_t i = 0; i < n; ++i) {
      if (consecutive && i > 0 && keys.back() < kLastKey) {
        keys.push_back(keys.back() + 1);
      } else {
        keys.push_back(setup_.first_key + Size(Below(setup_.num_keys())));
      }
    }
    return keys;
  }

  std::vector<float> Priorities(size_t n) {
    std::vector<float> priorities;
    for (size_t i = 0; i < n; ++i) {
      priorities.push_back(OneOf({1.0f, 0.5f, 2e-7f, 0.0f, -0.0f, kLargest,
                                  kSmallest, kUnknownPriority}));
    }
    return priorities;
  }

  // Returns a length of an item whose last step also has a key.
  int32_t Length(int64_t item_key) {
    const int64_t capacity = setup_.capacity;
    const int64_t length = OneIn(10) ? capacity : OneOf({1, 2, 3, 4});
    return 1 + std::min(std::min(length, capacity) - 1, kLastKey - item_key);
  }

  static int64_t Size(size_t n) { return static_cast<int64_t>(n); }

  size_t Below(size_t n) { return rng_() % n; }
  bool OneIn(size_t n) { return Below(n) == 0; }
  template <typename T>
  T OneOf(std::initializer_list<T> choices) {
    return choices.begin()[Below(choices.size())];
  }

  const Setup& setup_;
  Memory& memory_;
  const bool alone_;
  std::mt19937_64 rng_;
};

void AttackAll(size_t operations, size_t operations_of_each) {
  constexpr size_t kOperationsOfMemory = 1000;
  const std::vector<DistributionSpec> distributions = {
      {"fifo", 0.0, 0.0},         {"uniform", 0.0, 0.0},
      {"contextual", 1.0, 0.1},   {"proportional", -7.0, 0.0},
      {"proportional", 0.0, 0.0}, {"proportional", 0.6, 0.0},
      {"proportional", 7.0, 0.0}, {"proportional", 7.0, 0.1},
      {"contextual", -7.0, 0.0},  {"contextual", 7.0, 0.0},
      {"rank_based", 0.5, 0.0, 3}, {"rank_based", 7.0, 0.0}};
  const std::vector<std::vector<size_t>> columns = {
      {Values::kFixedBytes, kVariable, 0, Values::kFixedBytes},
      {kVariable, Values::kFixedBytes},
      {Values::kFixedBytes},
      {0}};
  const std::vector<std::pair<size_t, size_t>> capacities = {
      {1, 1}, {1, 2}, {5, 5}, {30, 45}, {200, 400}};
  using Statistics = Memory::Statistics;
  Totals<Statistics> totals({{"inserted", &Statistics::inserted},
                             {"duplicates", &Statistics::duplicates},
                             {"incomplete", &Statistics::incomplete},
                             {"unviewed", &Statistics::unviewed},
                             {"removed", &Statistics::removed},
                             {"sampled", &Statistics::sampled},
                             {"updated", &Statistics::updated},
                             {"missing", &Statistics::missing}});
  uint64_t seed = 0;
  for (size_t done = 0; done < operations; done += kOperationsOfMemory) {
    std::mt19937_64 rng(++seed);
    const auto [soft, hard] = capacities[rng() % capacities.size()];
    Setup setup = {soft, hard, columns[rng() % columns.size()], distributions,
                   rng() % distributions.size(), 0};
    // Every other memory gets the last keys there are.
    if (seed % 2 == 0) setup.first_key = kLastKey - (setup.num_keys() - 1);
    totals.Add(Attack<Caller>(
        setup, 1, std::min(operations - done, kOperationsOfMemory), seed));
  }
  for (const size_t removal : {0, 1, 2, 3}) {
    const Setup setup = {30, 45, columns[0], distributions, removal, 0};
    totals.Add(Attack<Caller>(setup, kThreads, operations_of_each / 4, ++seed));
  }
  totals.Print("hostile operations", operations, operations_of_each);
}

// The arguments of a memory of episodes.
struct EpisodeSetup {
  size_t capacity;
  std::vector<size_t> column_bytes;
  DistributionSpec sampling;
  EpisodeMemory::Removal removal;

  std::unique_ptr<EpisodeMemory> New(uint64_t seed) const {
    return std::make_unique<EpisodeMemory>(capacity, 0.9f, column_bytes, sampling,
                                           removal, seed);
  }
};

// A caller of random operations on a memory of episodes. The values of a state
// are those of a key, and those of the next state belong to the next key.
class EpisodeCaller {
 public:
  // `alone`: no other thread calls the memory.
  EpisodeCaller(const EpisodeSetup& setup, EpisodeMemory& memory, bool alone,
                uint64_t seed)
      : setup_(setup),
        column_bytes_(setup.column_bytes),
        memory_(memory),
        alone_(alone),
        rng_(seed) {}

  void Call(size_t operations) {
    for (size_t i = 0; i < operations; ++i) {
      const size_t kind = Below(1000);
      if (kind < 300) {
        Add();
      } else if (kind < 480) {
        Sample();
      } else if (kind < 550) {
        SampleEpisodes();
      } else if (kind < 900) {
        Refresh();
      } else if (kind < 940) {
        Read();
      } else if (kind < 960) {
        memory_.SetRewardScale(Below(3), Below(2) == 0);
      } else if (kind < 975) {
        Require(std::isfinite(memory_.RewardScale()), "the scale is finite");
      } else if (kind < 998) {
        double mean[1], deviation[1];
        memory_.Moments(0, column_bytes_[0] == Values::kFixedBytes, mean,
                        deviation);
      } else if (kind < 999) {
        SaveAndLoad<EpisodeCaller>(setup_, memory_, alone_, rng_());
      } else {
        Check();
      }
    }
  }

  void Check() {
    try {
      memory_.CheckInvariants();
    } catch (const BrokenInvariant&) {
      if (values_are_known) throw;
    }
    const EpisodeMemory::Statistics statistics = memory_.statistics();
    Require(0 <= statistics.far_policy &&
                statistics.far_policy <= statistics.steps &&
                statistics.episodes <= statistics.steps &&
                statistics.steps <= static_cast<int64_t>(memory_.capacity()),
            "the counters fit together");
  }

 private:
  void Add() {
    const size_t capacity = memory_.capacity();
    const size_t num_steps = Below(5) == 0 ? capacity : 1 + Below(capacity);
    const std::vector<float> rewards = Floats(num_steps),
                             values = Floats(num_steps + 1),
                             advantages = Floats(num_steps);
    Values states(column_bytes_, num_steps + 1);
    const int64_t first = Below(1000);
    for (size_t t = 0; t <= num_steps; ++t) states.Set(t, first + t);
    int64_t key;
    const bool has_room =
        memory_.Add({num_steps, states.Sources(), rewards.data(),
                     values.data(), advantages.data(),
                     Below(2) == 0},
                    &key);
    no_room += !has_room;
    Require(has_room || !alone_,
            "there is room for an episode as long as the memory");
  }

  void Sample() {
    const size_t batch_size = 1 + Below(memory_.capacity());
    const size_t num_batches = 1 + Below(3), n = batch_size * num_batches;
    const int64_t history = Below(4);
    const size_t width = history + 2;
    std::vector<int32_t> lengths(n);
    std::vector<int64_t> keys(n);
    std::vector<double> probabilities(n);
    std::vector<float> rewards(n), discounts(n), q_ret(n), v_tbc(n);
    const auto bootstraps = std::make_unique<bool[]>(n);
    Values states(column_bytes_, n * width);
    int64_t count;
    const bool is_drawn = memory_.Sample(
        batch_size, num_batches, Below(3),
        {keys.data(), probabilities.data(), rewards.data(), discounts.data(),
         bootstraps.get(), q_ret.data(), v_tbc.data(), history, lengths.data(),
         states.Targets()},
        &count);
    if (!is_drawn) {
      ++nothing_to_sample;
      return;
    }
    RequireDistinct(keys, batch_size);
    for (size_t i = 0; i < n; ++i) {
      Require(probabilities[i] > 0 && probabilities[i] <= 1 + 1e-9,
              "drawn steps have a probability");
      if (column_bytes_[0] != Values::kFixedBytes) continue;
      Require(0 <= lengths[i] && lengths[i] <= history,
              "a history is not longer than asked for");
      const size_t last = (i + 1) * width - 1;
      for (size_t back = 0; back < width; ++back) {
        const size_t steps = std::min<size_t>(back, lengths[i] + 1);
        states.RequireStep(last - back, states.KeyOf(last) - steps);
      }
    }
  }

  void SampleEpisodes() {
    const size_t batch_size = 1 + Below(4), num_batches = 1 + Below(3);
    const size_t n = batch_size * num_batches, max_steps = 1 + Below(150);
    std::vector<int64_t> keys(n), lengths(n);
    const auto bootstraps = std::make_unique<bool[]>(n);
    std::unique_ptr<Values> states;
    std::vector<float> rewards;
    size_t length = 0;
    const bool is_refused = Below(10) == 0;
    int64_t count;
    const bool is_drawn = memory_.SampleEpisodes(
        batch_size, num_batches, max_steps, Below(3),
        {keys.data(), lengths.data(), bootstraps.get()},
        [&](size_t longest, EpisodeMemory::WindowSteps* steps) {
          length = longest;
          rewards.resize(n * longest);
          states = std::make_unique<Values>(column_bytes_, n * (longest + 1));
          steps->rewards = rewards.data();
          steps->columns = states->Targets();
          return !is_refused;
        },
        &count);
    if (!is_drawn) {
      ++nothing_to_sample;
      return;
    }
    Require(1 <= length && length <= std::min(max_steps, memory_.capacity()),
            "a window is not longer than was asked for");
    RequireDistinct(keys, batch_size);
    for (size_t i = 0; i < n && !is_refused; ++i) {
      if (column_bytes_[0] != Values::kFixedBytes) continue;
      const size_t begin = i * (length + 1);
      const int64_t first = states->KeyOf(begin);
      for (size_t t = 0; t <= length; ++t) {
        const int64_t padding = length - lengths[i];
        states->RequireStep(begin + t,
                            first + std::max<int64_t>(0, t - padding));
      }
    }
  }

  void Refresh() {
    const size_t num_batches = 1 + Below(3), n = num_batches * Below(20);
    const std::vector<int64_t> keys = Keys(n);
    std::vector<float> rhos = Floats(n), errors = Floats(n);
    for (float& rho : rhos) rho = std::abs(rho);
    for (float& error : errors) error = std::abs(error);
    const std::vector<float> values = Floats(n), divergences = Floats(n);
    const int64_t missing = memory_.Refresh(
        {n, keys.data(), values.data(),
         divergences.data(), rhos.data(),
         divergences.data(), errors.data(), values.data()},
        1.0f + Below(2), num_batches);
    Require(0 <= missing && missing <= static_cast<int64_t>(n),
            "no more keys are missing than were given");
  }

  void Read() {
    const std::vector<int64_t> keys = Keys(Below(20));
    const size_t n = keys.size();
    std::vector<float> stored(EpisodeMemory::kStored * n);
    memory_.Read(keys.data(), n, stored.data());
    for (size_t i = 0; i < n; ++i) {
      Require(std::isnan(stored[i]) == std::isnan(stored[n + i]),
              "a step has a value and a weight, or neither");
    }
  }

  std::vector<int64_t> Keys(size_t n) {
    const EpisodeMemory::Statistics statistics = memory_.statistics();
    const int64_t next = statistics.steps + statistics.removed;
    std::vector<int64_t> keys;
    for (size_t i = 0; i < n; ++i) {
      const int64_t back = Below(2 * memory_.capacity());
      keys.push_back(Below(20) == 0 ? kLastKey
                                    : std::max<int64_t>(0, next + 3 - back));
    }
    return keys;
  }

  // Not kLargest: the sum of divergences would lose the others beside it.
  std::vector<float> Floats(size_t n) {
    const float choices[] = {0.0f, -0.0f, 1.0f, 0.3f, -2.0f, 1e4f, kSmallest};
    std::vector<float> floats;
    for (size_t i = 0; i < n; ++i) floats.push_back(choices[Below(7)]);
    return floats;
  }

  size_t Below(size_t n) { return rng_() % n; }

  const EpisodeSetup& setup_;
  const std::vector<size_t>& column_bytes_;
  EpisodeMemory& memory_;
  const bool alone_;
  std::mt19937_64 rng_;
};

void AttackEpisodes(size_t operations, size_t operations_of_each) {
  constexpr size_t kOperationsOfMemory = 500;
  const std::vector<std::vector<size_t>> columns = {
      {Values::kFixedBytes, kVariable, 0, Values::kFixedBytes},
      {kVariable, Values::kFixedBytes},
      {0}};
  const std::vector<DistributionSpec> samplings = {
      {"uniform", 0.0, 0.0},
      {"rank_based", 0.5, 0.0, 10},
      {"rank_based", 7.0, 0.0, 1}};
  const EpisodeMemory::Removal removals[] = {
      EpisodeMemory::Removal::kOldest, EpisodeMemory::Removal::kFarPolicy,
      EpisodeMemory::Removal::kDivergence};
  using Statistics = EpisodeMemory::Statistics;
  Totals<Statistics> totals({{"removed", &Statistics::removed},
                             {"sampled", &Statistics::sampled},
                             {"updated", &Statistics::updated},
                             {"missing", &Statistics::missing}});
  const auto attack = [&](size_t num_threads, size_t calls, size_t capacity,
                          uint64_t seed) {
    const EpisodeSetup setup = {capacity, columns[seed % columns.size()],
                                samplings[seed / 3 % 3], removals[seed / 9 % 3]};
    totals.Add(Attack<EpisodeCaller>(setup, num_threads, calls, seed));
  };
  uint64_t seed = 0;
  for (size_t done = 0; done < operations; done += kOperationsOfMemory) {
    const size_t capacities[] = {1, 2, 30, 100};
    ++seed;
    attack(1, kOperationsOfMemory, capacities[seed % 4], seed);
  }
  for (int i = 0; i < 4; ++i) {
    seed += 7;
    attack(kThreads, operations_of_each / 4, 100, seed);
  }
  totals.Print("of episodes", operations, operations_of_each);
}

}  // namespace
}  // namespace replay

int main(int argc, char** argv) {
  alarm(300);  // A broken memory may search for ever.
  const auto argument = [&](int i, size_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  replay::AttackAll(argument(1, 200000), argument(2, 15000));
  replay::AttackEpisodes(argument(1, 200000) / 4, argument(2, 15000) / 4);
}
