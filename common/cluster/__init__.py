"""Roles and addresses, services and clients over TensorFlow's RPC, parameters, local launcher."""
