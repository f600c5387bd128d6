"""Reading a config. The entry is `load.load`: flags over the environment over the file over defaults, checked whole."""
