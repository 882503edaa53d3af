"""Hooks: what the hooks of foreign tools (`integrations/*/hook`) share."""
