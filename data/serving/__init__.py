"""Files of tuned tables that vLLM and SGLang load: their names, the models and logs that tell which are needed."""
