"""Networks of translators as graphs for other runtimes."""
