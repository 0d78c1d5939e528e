"""Transport between roles: RPC, token, handshake, topology, probes, launcher."""
