"""Reading a config. The entry is `load.load`: flags override the environment, the file and defaults; all is validated."""
