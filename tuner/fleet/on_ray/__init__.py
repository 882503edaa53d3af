"""Ray carries the messages of a fleet: the connection, the members on their machines, and the engine of the driver."""
