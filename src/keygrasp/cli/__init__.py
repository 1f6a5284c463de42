"""The ``keygrasp`` command: one small file a command, imported only when it is run."""
