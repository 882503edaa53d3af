"""How long seqtune itself takes."""
