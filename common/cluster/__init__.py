"""Transport: RPC, token, handshake, topology, probes, parameters and the launcher."""
