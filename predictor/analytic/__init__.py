"""The analytic predictor: proposals for GPUs from facts alone, without a measurement."""
