"""Serving: the files of tuned settings that vLLM and SGLang load, and which of them a model or a log needs."""
