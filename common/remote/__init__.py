"""Any store in another process: services, and clients that are stores themselves."""
