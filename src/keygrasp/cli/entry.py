"""What the ``keygrasp`` command begins with: a Ctrl-C while the rest is still being imported shows no traceback."""


def main() -> int:
    """Run ``keygrasp``; see :func:`keygrasp.cli.main.main`."""
    try:
        from keygrasp.cli.main import main as run
    except KeyboardInterrupt:
        return 130  # as keygrasp.errors.EXIT_INTERRUPTED, which may not have been imported
    return run()
