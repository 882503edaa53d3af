"""Labels: what MIOpen's tuner chose, learned by a translator and, beside it, chains of boosted trees."""
