// All ops in one translation unit, since TensorFlow's headers take several times
// as long to compile as all of the ops.
#include "episode_ops.cc"
#include "memory_ops.cc"
#include "ops.cc"
