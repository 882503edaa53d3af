"""Problems of the benchmarks: the locked test set, seeded problems, and the layers of the networks."""
