"""Programs that compare versions of seqtune, and measure beside other work."""
